#pragma once
// SPDX-License-Identifier: MIT
// What every contender does: hold users' histories and answer requests; hold one set and answer look-ups.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "population.hpp"
#include "seenby/kernels/digest_lanes.hpp"

namespace peers {

/// Histories of many users. A call covers many requests, so that the virtual call costs nothing.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  /// The user's whole history at once; its size is known, so every contender may size for it.
  virtual void record(User user, const Items& history) = 0;
  /// Called once before requests over these pages.
  virtual void prepare(std::span<const Items> pages) = 0;
  /// Finds the candidates that neither user has seen, as indices in ranking order, request by request; returns how
  /// many there were.
  virtual std::size_t select(std::span<const Request> requests) = 0;
};

/// One set.
class Set {
 public:
  Set() = default;
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;
  virtual ~Set() = default;

  virtual void insert(std::span<const Item> items, std::span<const Digest> digests) = 0;
  /// One look-up after the other; returns how many were found.
  virtual std::size_t count(std::span<const Item> items, std::span<const Digest> digests) = 0;
  /// The fastest way it has to look up many; found[i] becomes 0 or 1.
  virtual void look_up(std::span<const Item> items, std::span<const Digest> digests, std::uint8_t* found) = 0;
};

struct Contender {
  std::string name;
  /// Empty when the contender has no such thing.
  std::function<std::unique_ptr<Store>()> make_store;
  std::function<std::unique_ptr<Set>(std::size_t items, double fpr)> make_set;
};

/// Ours, from a translation unit without -march, and only one set from one with -march=native.
std::vector<Contender> seenby_contenders();
std::vector<Contender> seenby_native_contenders();
/// The peers, all from translation units with -march=native but for `boost_multiblock_plain`.
std::vector<Contender> boost_contenders();
std::vector<Contender> boost_plain_contenders();
std::vector<Contender> classic_contenders();

/// Stores whose requests rank candidates of their own: numbers, or strings where `strings` is set. What select() does
/// with a page, it does as if it had never seen it: hashing included, and with ours the repeats dropped. `_digests`
/// keeps the candidates' digests beside them.
std::vector<Contender> seenby_fresh_contenders(bool strings);
std::vector<Contender> boost_fresh_contenders(bool strings);

/// The same requests without the facade and the store: filters in one array, one kernel call a request, the digests
/// as a pool prepares them.
class BareKernel {
 public:
  explicit BareKernel(std::span<const User> users);
  void prepare(std::span<const Items> pages);
  std::size_t select(std::span<const Request> requests);

 private:
  struct Filter {
    User user = 0;
    std::size_t offset = 0;
    std::uint32_t block_count = 0;
  };
  std::vector<Filter> filters_;
  std::vector<std::byte> blocks_;
  std::vector<const Digest*> pages_;
  std::vector<std::vector<seenby::detail::DigestLanes>> lanes_;
  std::vector<std::uint8_t> seen_;
  std::vector<std::uint64_t> unseen_;
};

}  // namespace peers
