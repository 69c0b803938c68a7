#pragma once
// SPDX-License-Identifier: MIT
// FileQueue: a queue of lines that outlives its reader: a file of messages, and beside it how many are acknowledged.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/ingest/queue.hpp"

namespace seenby::test {

/// For one reader at a time, who acknowledges in order.
class FileQueue {
 public:
  using message_type = std::string;
  using receipt_type = std::uint64_t;
  using Delivered = Delivery<std::string, std::uint64_t>;

  explicit FileQueue(std::string path) : path_(std::move(path)) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines_.push_back(line);
    std::ifstream(path_ + ".acknowledged") >> acknowledged_;
    next_ = acknowledged_;
  }

  Result<std::vector<Delivered>> read(std::size_t most, std::chrono::milliseconds) {
    std::vector<Delivered> batch;
    for (; next_ < lines_.size() && batch.size() < most; ++next_)
      batch.push_back({next_, lines_[next_], system_time(), 1});
    return batch;
  }
  Result<void> acknowledge(std::span<const std::uint64_t> receipts) {
    for (const std::uint64_t receipt : receipts) acknowledged_ = std::max(acknowledged_, receipt + 1);
    const std::string fresh = path_ + ".new";
    std::ofstream(fresh) << acknowledged_;
    if (std::rename(fresh.c_str(), (path_ + ".acknowledged").c_str()) != 0)
      return Error{ErrorCode::io, "rename failed"};
    return {};
  }
  Result<void> bury(const Delivered& delivery, const Error& why) {
    std::ofstream(path_ + ".dead", std::ios::app) << delivery.message << " | " << why.message << '\n';
    return acknowledge(std::span(&delivery.receipt, 1));
  }
  [[nodiscard]] std::size_t backlog() const noexcept { return lines_.size() - acknowledged_; }

 private:
  std::string path_;
  std::vector<std::string> lines_;
  std::uint64_t acknowledged_ = 0;
  std::size_t next_ = 0;
};

}  // namespace seenby::test
