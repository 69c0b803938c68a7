#pragma once
// SPDX-License-Identifier: MIT
// CountingExecutor: another executor, with its round trips and commands counted, each delayed if told.

#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "seenby/redis/executor.hpp"

namespace seenby::test {

class CountingExecutor final : public redis::Executor {
 public:
  explicit CountingExecutor(std::shared_ptr<redis::Executor> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] Result<std::vector<redis::Reply>> execute(std::span<const redis::Command> batch,
                                                          redis::Deadline deadline) override {
    ++trips;
    commands += batch.size();
    if (delay.count() != 0) std::this_thread::sleep_for(delay);
    return inner_->execute(batch, deadline);
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  [[nodiscard]] bool is_local() const override { return inner_->is_local(); }

  std::atomic<std::size_t> trips{0};
  std::atomic<std::size_t> commands{0};
  std::chrono::milliseconds delay{0};  ///< of each round trip; set while nothing is running

 private:
  std::shared_ptr<redis::Executor> inner_;
};

}  // namespace seenby::test
