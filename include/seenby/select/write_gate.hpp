#pragma once
// SPDX-License-Identifier: MIT
// WriteGate: a record of a user never overlaps a merge that moves what the user saw, nor a forget.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "seenby/config.hpp"

SEENBY_DETAIL_BEGIN

/// Users share stripes by their hash; a stripe holds any number of records, or one writer alone. A record costs two
/// atomic operations, and waits only while a merge or a forget of its stripe is under way.
class WriteGate {
  using Stripe = std::atomic<std::uint32_t>;
  static constexpr std::uint32_t alone = std::uint32_t{1} << 31;  // the other bits count records

 public:
  class Record {
   public:
    Record(WriteGate& gate, std::size_t user_hash) noexcept : stripe_(gate.stripe(user_hash)) { enter(stripe_, 1); }
    ~Record() { leave(stripe_); }
    Record(const Record&) = delete;
    Record& operator=(const Record&) = delete;

   private:
    Stripe& stripe_;
  };

  /// Records of many users: each stripe once, in the order that every writer takes them in.
  class Records {
   public:
    Records(WriteGate& gate, std::span<const std::size_t> user_hashes) {
      for (const std::size_t hash : user_hashes) stripes_.push_back(&gate.stripe(hash));
      std::sort(stripes_.begin(), stripes_.end());
      stripes_.erase(std::unique(stripes_.begin(), stripes_.end()), stripes_.end());
      for (Stripe* stripe : stripes_) enter(*stripe, 1);
    }
    ~Records() {
      for (Stripe* stripe : stripes_) leave(*stripe);
    }
    Records(const Records&) = delete;
    Records& operator=(const Records&) = delete;

   private:
    std::vector<Stripe*> stripes_;
  };

  class Alone {
   public:
    /// Both users' stripes, always in one order.
    Alone(WriteGate& gate, std::size_t from_hash, std::size_t into_hash) noexcept
        : first_(std::min(&gate.stripe(from_hash), &gate.stripe(into_hash))),
          second_(std::max(&gate.stripe(from_hash), &gate.stripe(into_hash))) {
      lock(*first_);
      if (second_ != first_) lock(*second_);
    }
    ~Alone() {
      unlock(*first_);
      if (second_ != first_) unlock(*second_);
    }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    static void lock(Stripe& stripe) noexcept {
      enter(stripe, alone);
      for (std::uint32_t now = stripe.load(std::memory_order_acquire); now != alone;
           now = stripe.load(std::memory_order_acquire)) {
        stripe.wait(now, std::memory_order_relaxed);
      }
    }
    static void unlock(Stripe& stripe) noexcept {
      stripe.store(0, std::memory_order_release);
      stripe.notify_all();
    }
    Stripe* first_;
    Stripe* second_;
  };

 private:
  static void enter(Stripe& stripe, std::uint32_t add) noexcept {
    for (std::uint32_t now = stripe.load(std::memory_order_relaxed);;) {
      if ((now & alone) != 0) {
        stripe.wait(now, std::memory_order_relaxed);
        now = stripe.load(std::memory_order_relaxed);
      } else if (stripe.compare_exchange_weak(now, now + add, std::memory_order_acquire, std::memory_order_relaxed)) {
        return;
      }
    }
  }
  static void leave(Stripe& stripe) noexcept {
    if (stripe.fetch_sub(1, std::memory_order_release) == (alone | 1)) stripe.notify_all();
  }
  [[nodiscard]] Stripe& stripe(std::size_t user_hash) noexcept { return stripes_[user_hash % stripes_.size()]; }

  std::array<Stripe, 1024> stripes_{};
};

SEENBY_DETAIL_END
