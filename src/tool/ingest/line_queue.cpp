// SPDX-License-Identifier: MIT
// Reads lines in batches, and keeps those that are no events.

#include "ingest/line_queue.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "input_error.hpp"
#include "stop_signal.hpp"

namespace seenby::tool {

DeadLetters::DeadLetters(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_.open(path, std::ios::app);
  if (!file_)
    throw InputError("--dead-letters: expected a file to write, got " + in_quotes(path) + ": " + std::strerror(errno));
}

Result<void> DeadLetters::write(std::uint64_t line, std::string_view event, std::string_view why) {
  why = without_prefix(why);
  if (path_.empty()) {
    std::cerr << "seenby: line " << line << ": " << why << '\n';
  } else {
    const nlohmann::ordered_json letter{{"line", line}, {"error", why}, {"event", event}};
    file_ << letter.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    if (!file_) {
      file_.clear();
      return Error{ErrorCode::io, "expected to write to " + in_quotes(path_) + ", got " + std::strerror(errno)};
    }
  }
  ++count_;
  return {};
}

Result<std::vector<LineQueue::Delivered>> LineQueue::read(std::size_t most, std::chrono::milliseconds wait) {
  std::vector<Delivered> batch;
  while (batch.size() < most && !lines_.ended()) {
    // Waits for the first line only.
    const bool ready =
        stop_asked() ? lines_.holds_line() : lines_.ready(batch.empty() ? wait : std::chrono::milliseconds{0});
    if (!ready) break;
    try {
      std::string_view line;
      if (!lines_.next(line)) break;
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      batch.push_back({lines_.line_number(), std::string(line), system_time(), 1});
    } catch (const BadLine& problem) {
      std::string_view why = problem.what();
      why.remove_prefix(why.find(": ") + 2);  // where: a dead letter says its line itself
      if (auto done = dead_letters_.write(lines_.line_number(), {}, why); !done) return std::move(done).error();
    }
  }
  return batch;
}

Result<void> LineQueue::bury(const Delivered& delivery, const Error& why) {
  return dead_letters_.write(delivery.receipt, delivery.message, why.message);
}

bool LineQueue::ended() const { return lines_.ended() || (stop_asked() && !lines_.holds_line()); }

}  // namespace seenby::tool
