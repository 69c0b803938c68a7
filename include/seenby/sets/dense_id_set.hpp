#pragma once
// SPDX-License-Identifier: MIT
// DenseIdSet: an exact set of small dense ids, one bit each.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace seenby {

/// A bitmap, for ids that are numbered from 0 without large gaps: a bit an id up to the largest one inserted, so that
/// it is smaller than a Bloom filter at 1% once a tenth of the ids below the largest are in it, and exact.
///
/// Thread safety: as a standard container: any number of readers, or one writer.
class DenseIdSet {
 public:
  /// `id_limit` is the first id that is refused: what one stray id may cost, id_limit / 8 bytes (2 MiB by default).
  explicit DenseIdSet(std::uint64_t id_limit = std::uint64_t{1} << 24) : id_limit_(id_limit) {}

  /// Adds an id; true when it was not there. Throws std::out_of_range for an id past the limit; std::bad_alloc.
  bool insert(std::uint64_t id) {
    if (id >= id_limit_) {
      std::string message = "seenby: expected an id below ";
      message.append(std::to_string(id_limit_)).append(", got ").append(std::to_string(id));
      throw std::out_of_range(message);
    }
    const auto word = static_cast<std::size_t>(id / 64);
    if (word >= words_.size()) words_.resize(word + 1);
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    const bool added = (words_[word] & bit) == 0;
    words_[word] |= bit;
    size_ += added ? 1U : 0U;
    return added;
  }

  /// Removes an id; true when it was there.
  bool erase(std::uint64_t id) noexcept {
    if (!contains(id)) return false;
    words_[static_cast<std::size_t>(id / 64)] &= ~(std::uint64_t{1} << (id % 64));
    --size_;
    return true;
  }

  /// Forgets every id. O(largest id / 64).
  void clear() noexcept {
    words_.clear();
    size_ = 0;
  }

  /// Whether the id is in it; false past the limit. O(1).
  [[nodiscard]] bool contains(std::uint64_t id) const noexcept {
    return id / 64 < words_.size() && ((words_[static_cast<std::size_t>(id / 64)] >> (id % 64)) & 1U) != 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }            ///< ids in it
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }             ///< whether it holds nothing
  [[nodiscard]] std::uint64_t id_limit() const noexcept { return id_limit_; }  ///< ids are below this
  /// One bit an id up to the largest inserted, in whole words.
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return words_.capacity() * sizeof(std::uint64_t); }

  /// Every id, ascending.
  [[nodiscard]] std::vector<std::uint64_t> items() const {
    std::vector<std::uint64_t> ids;
    ids.reserve(size_);
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1) {
        ids.push_back(word * 64 + static_cast<std::uint64_t>(std::countr_zero(rest)));
      }
    }
    return ids;
  }

 private:
  std::uint64_t id_limit_;
  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0;
};

}  // namespace seenby
