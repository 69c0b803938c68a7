#pragma once
// SPDX-License-Identifier: MIT
// CountingExecutor: another executor, with its round trips and commands counted.

#include <atomic>
#include <memory>
#include <span>
#include <string>
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
    return inner_->execute(batch, deadline);
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }
  [[nodiscard]] bool is_local() const override { return inner_->is_local(); }

  std::atomic<std::size_t> trips{0};
  std::atomic<std::size_t> commands{0};

 private:
  std::shared_ptr<redis::Executor> inner_;
};

}  // namespace seenby::test
