#pragma once
// SPDX-License-Identifier: MIT
// Memory that readers look at without a lock: words, a sequence that tells them when to look again, and zeroing.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "seenby/detail/atomic_ref.hpp"
#include "seenby/detail/cpu.hpp"

SEENBY_DETAIL_BEGIN

/// Whether every access to shared words goes through an atomic, so that ThreadSanitizer can follow the protocol. Other
/// builds read and write whole blocks with vector instructions: a torn block only ever lacks bits that a racing writer
/// has not acknowledged yet, or belongs to memory whose sequence has moved on.
#if defined(SEENBY_THREAD_SANITIZER)
inline constexpr bool every_access_atomic = true;
#else
inline constexpr bool every_access_atomic = false;
#endif

[[nodiscard]] inline std::uint64_t load_word(const std::uint64_t* word) noexcept {
  return AtomicRef<std::uint64_t>(*const_cast<std::uint64_t*>(word)).load(std::memory_order_relaxed);
}
[[nodiscard]] inline std::uint64_t load_word_acquire(const std::uint64_t* word) noexcept {
  return AtomicRef<std::uint64_t>(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}
inline void store_word(std::uint64_t* word, std::uint64_t value) noexcept {
  AtomicRef<std::uint64_t>(*word).store(value, std::memory_order_relaxed);
}
inline void store_word_release(std::uint64_t* word, std::uint64_t value) noexcept {
  AtomicRef<std::uint64_t>(*word).store(value, std::memory_order_release);
}

inline void copy_words(std::uint64_t* to, const std::uint64_t* from, std::size_t count) noexcept {
  if constexpr (every_access_atomic) {
    for (std::size_t i = 0; i < count; ++i) store_word(to + i, load_word(from + i));
  } else {
    if (count > 0) std::memcpy(to, from, count * sizeof(std::uint64_t));
  }
}
/// Copies bytes that no other thread has, aligned or not, into whole words.
inline void copy_words(std::uint64_t* to, std::span<const std::byte> bytes) noexcept {
  if constexpr (every_access_atomic) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      store_word(to + at / sizeof word, word);
    }
  } else {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
}
inline void zero_words(std::uint64_t* words, std::size_t count) noexcept {
  if constexpr (every_access_atomic) {
    for (std::size_t i = 0; i < count; ++i) store_word(words + i, 0);
  } else {
    if (count > 0) std::memset(words, 0, count * sizeof(std::uint64_t));
  }
}

/// Tells lock-free readers whether the memory they followed a reference into was still what the reference meant.
///
/// It moves only when memory is unlinked or the index is shifted, never when bits are set: plain inserts cost readers
/// nothing. Odd while the index is inconsistent. One writer at a time (the shard's mutex); any number of readers, which
/// write nothing. The pattern is the seqlock of Boehm, "Can seqlocks get along with programming language memory
/// models?" (2012).
class ReadSequence {
 public:
  [[nodiscard]] std::uint32_t begin_read() const noexcept { return value_.load(std::memory_order_acquire); }
  [[nodiscard]] static bool is_stable(std::uint32_t seen) noexcept { return (seen & 1U) == 0; }

  /// True when nothing that was reachable at begin_read() has been reused since.
  [[nodiscard]] bool unchanged_since(std::uint32_t seen) const noexcept {
#if defined(SEENBY_THREAD_SANITIZER)
    return value_.fetch_add(0, std::memory_order_acq_rel) == seen;
#else
    std::atomic_thread_fence(std::memory_order_acquire);
    return value_.load(std::memory_order_relaxed) == seen;
#endif
  }

  /// After unlinking memory, before reusing or zeroing it.
  void memory_unlinked() noexcept { advance(2); }
  /// Around a change that makes the index inconsistent meanwhile.
  void begin_shift() noexcept { advance(1); }
  void end_shift() noexcept { value_.store(value_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  void advance(std::uint32_t by) noexcept {
#if defined(SEENBY_THREAD_SANITIZER)
    value_.fetch_add(by, std::memory_order_acq_rel);
#else
    // The store comes after the unlinking, and the fence puts every later store after it.
    value_.store(value_.load(std::memory_order_relaxed) + by, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_release);
#endif
  }

  mutable std::atomic<std::uint32_t> value_{0};
};

SEENBY_DETAIL_END
