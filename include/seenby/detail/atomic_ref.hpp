#pragma once
// SPDX-License-Identifier: MIT
// AtomicRef: std::atomic_ref, or the part of it that seenby uses where the standard library has none (libc++ up to 18).

#include <atomic>
#include <version>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

#if defined(__cpp_lib_atomic_ref)
template <class Word>
using AtomicRef = std::atomic_ref<Word>;
#else
template <class Word>
class AtomicRef {
 public:
  explicit AtomicRef(Word& word) noexcept : word_(&word) {}
  [[nodiscard]] Word load(std::memory_order order) const noexcept { return __atomic_load_n(word_, builtin(order)); }
  void store(Word value, std::memory_order order) const noexcept { __atomic_store_n(word_, value, builtin(order)); }
  Word fetch_or(Word value, std::memory_order order) const noexcept {
    return __atomic_fetch_or(word_, value, builtin(order));
  }
  Word fetch_add(Word value, std::memory_order order) const noexcept {
    return __atomic_fetch_add(word_, value, builtin(order));
  }
  bool compare_exchange_weak(Word& expected, Word value, std::memory_order order) const noexcept {
    return __atomic_compare_exchange_n(word_, &expected, value, true, builtin(order), __ATOMIC_RELAXED);
  }

 private:
  [[nodiscard]] static constexpr int builtin(std::memory_order order) noexcept {
    switch (order) {
      case std::memory_order_relaxed: return __ATOMIC_RELAXED;
      case std::memory_order_acquire: return __ATOMIC_ACQUIRE;
      case std::memory_order_release: return __ATOMIC_RELEASE;
      case std::memory_order_acq_rel: return __ATOMIC_ACQ_REL;
      default: return __ATOMIC_SEQ_CST;
    }
  }
  Word* word_;
};
#endif

SEENBY_DETAIL_END
