#pragma once
// SPDX-License-Identifier: MIT
// The quiz article's code as published, statement by statement, to show its faults and to make keys of its kind.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/hash.hpp"
#include "seenby/redis/executor.hpp"
#include "seenby/redis_article/article_store.hpp"

namespace seenby::test {

/// One BITFIELD a bit, pipelined; DEL and refill to grow. hash(questionId, i) is seenby's default.
class ArticleAsPublished {
 public:
  static constexpr std::uint32_t k = 4;
  static constexpr std::uint32_t default_exponent = 11;

  /// With `spares_header` positions 0 to 4 become 5 to 9, to show the other faults without that one.
  explicit ArticleAsPublished(std::shared_ptr<redis::Executor> executor, bool spares_header = false)
      : executor_(std::move(executor)), spares_header_(spares_header) {}

  /// readSizeExponent: `Number(exp?.[0] ?? DEFAULT_EXPONENT)`. A missing key answers 0, not null.
  std::uint32_t read_size_exponent(const std::string& key) {
    const auto replies = run({bitfield(key, {"GET", "u5", "#0"})});
    return static_cast<std::uint32_t>(*replies.front().array()->front().integer());
  }
  /// bloomMightContain for many questions: all their bits in one pipeline.
  std::vector<bool> might_contain(const std::string& key, std::span<const std::uint64_t> questions, std::uint64_t m) {
    std::vector<redis::Command> pipeline;
    for (const std::uint64_t question : questions) {
      for (std::uint32_t i = 0; i < k; ++i) {
        pipeline.push_back(bitfield(key, {"GET", "u1", offset(question, i, m)}));
      }
    }
    const auto replies = run(pipeline);
    std::vector<bool> answers(questions.size(), true);
    for (std::size_t bit = 0; bit < replies.size(); ++bit) {
      if (*replies[bit].array()->front().integer() != 1) answers[bit / k] = false;
    }
    return answers;
  }
  void add(const std::string& key, std::uint64_t question, std::uint64_t m) {
    std::vector<redis::Command> pipeline;
    for (std::uint32_t i = 0; i < k; ++i) {
      pipeline.push_back(bitfield(key, {"SET", "u1", offset(question, i, m), "1"}));
    }
    run(pipeline);
  }
  void set_exponent(const std::string& key, std::uint32_t exponent) {
    run({bitfield(key, {"SET", "u5", "#0", std::to_string(exponent)})});
  }
  /// maybeResize, once its threshold is passed: delete, write the next exponent, add what is known.
  void resize(const std::string& key, std::span<const std::uint64_t> known, std::uint32_t exponent) {
    run({redis::Command::with_key(1, "DEL", key)});
    set_exponent(key, exponent + 1);
    for (const std::uint64_t question : known) add(key, question, std::uint64_t{1} << (exponent + 1));
  }
  std::uint64_t set_bits(const std::string& key) {
    return static_cast<std::uint64_t>(*run({redis::Command::with_key(1, "BITCOUNT", key)}).front().integer());
  }

 private:
  [[nodiscard]] std::string offset(std::uint64_t question, std::uint32_t i, std::uint64_t m) const {
    const std::uint64_t value = redis::ArticleDoubleHash{}(question, Xxh3Hash{}(question), i) % m;
    return std::string("#").append(std::to_string(spares_header_ && value < 5 ? value + 5 : value));
  }
  static redis::Command bitfield(const std::string& key, const std::vector<std::string>& words) {
    redis::Command command = redis::Command::with_key(1, "BITFIELD", key);
    for (const std::string& word : words) command.add(word);
    return command;
  }
  std::vector<redis::Reply> run(const std::vector<redis::Command>& pipeline) {
    return executor_->execute(pipeline, redis::Deadline::after(std::chrono::seconds(10))).value();
  }

  std::shared_ptr<redis::Executor> executor_;
  bool spares_header_;
};

}  // namespace seenby::test
