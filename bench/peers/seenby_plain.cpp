// SPDX-License-Identifier: MIT
// Ours, from a build without -march: kernels are chosen at run time.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "contender.hpp"
#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/kernels/table.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/memory_store.hpp"

namespace peers {
namespace {

/// The rate a request of two is sized for; 1.25% a filter.
constexpr double sizing_rate = 0.025;

using Filter = seenby::SeenFilter<seenby::MemoryStore<User>>;

/// A store that can read histories again, as a service's can: every filter may use its whole rate, and none needs exact
/// digests to grow from.
template <class Key>
[[nodiscard]] Filter make_filter() {
  seenby::MemoryStore<User> store{{.wrong_hide_rate = sizing_rate, .users_per_request = users_per_request},
                                  {.exact_items = 0}};
  store.set_replay([](const User& user, seenby::Time) -> seenby::Result<std::vector<seenby::SeenDigest>> {
    Items history;
    history_of(user, history);
    std::vector<seenby::SeenDigest> digests;
    for (const Item item : history.items) digests.push_back({seenby::Xxh3Hash{}(key_of<Key>(item))});
    return digests;
  });
  return Filter(std::move(store));
}

class SeenbyStore : public Store {
 public:
  void record(User user, const Items& history) override {
    filter_.create(user).value();  // known to be new: nothing to read from a history
    filter_.record_all(user, history.items).value();
  }
  void prepare(std::span<const Items> pages) override {
    pools_.clear();
    for (const Items& page : pages) pools_.emplace_back(page.items);
  }
  std::size_t select(std::span<const Request> requests) override {
    std::size_t total = 0;
    for (const Request& request : requests) {
      filter_.select_unseen(pools_[request.page], std::span<const User>(request.users), {}, page_);
      total += page_.size();
    }
    return total;
  }

 protected:
  Filter filter_ = make_filter<Item>();
  std::vector<seenby::CandidatePool<Item>> pools_;

 private:
  seenby::Selection<Item> page_;
};

/// The entry point for many requests: the next one's filters are fetched while one is answered.
class SeenbyManyStore final : public SeenbyStore {
 public:
  std::size_t select(std::span<const Request> requests) override {
    questions_.clear();
    for (const Request& request : requests) questions_.emplace_back(pools_[request.page], request.users);
    answers_.resize(std::max(answers_.size(), requests.size()));
    filter_.select_many(questions_, answers_);
    std::size_t total = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) total += answers_[i].size();
    return total;
  }

 private:
  std::vector<Filter::Request<Item>> questions_;
  std::vector<seenby::Selection<Item>> answers_;
};

/// Requests with candidates of their own.
template <class Key, bool KeepsDigests>
class SeenbyFreshStore final : public Store {
 public:
  void record(User user, const Items& history) override {
    filter_.create(user).or_throw();
    filter_.record_all(user, keys_of<Key>(history.items)).or_throw();
  }
  void prepare(std::span<const Items> pages) override {
    pages_.clear();
    digests_.clear();
    for (const Items& page : pages) {
      pages_.push_back(keys_of<Key>(page.items));
      digests_.emplace_back();
      for (const Key& key : pages_.back()) digests_.back().push_back(seenby::Xxh3Hash{}(key));
    }
  }
  std::size_t select(std::span<const Request> requests) override {
    std::size_t total = 0;
    for (const Request& request : requests) {
      const std::span<const User> users(request.users);
      if constexpr (KeepsDigests) {
        filter_.select_unseen(seenby::ItemBatch<Key>{pages_[request.page], digests_[request.page]}, users, {}, page_);
      } else {
        filter_.select_unseen(pages_[request.page], users, {}, page_);
      }
      total += page_.size();
    }
    return total;
  }

 private:
  Filter filter_ = make_filter<Key>();
  std::vector<std::vector<Key>> pages_;
  std::vector<std::vector<Digest>> digests_;
  seenby::Selection<Key> page_;
};

template <class Key>
std::vector<Contender> fresh_contenders() {
  return {{"seenby", [] { return std::make_unique<SeenbyFreshStore<Key, false>>(); }, {}},
          {"seenby_digests", [] { return std::make_unique<SeenbyFreshStore<Key, true>>(); }, {}}};
}

class SeenbySet final : public Set {
 public:
  SeenbySet(std::size_t items, double fpr) : filter_({.expected_items = items, .target_fpr = fpr}) {}
  void insert(std::span<const Item>, std::span<const Digest> digests) override { filter_.insert(digests); }
  std::size_t count(std::span<const Item>, std::span<const Digest> digests) override {
    std::size_t found = 0;
    for (const Digest digest : digests) found += filter_.may_contain(digest) ? 1U : 0U;
    return found;
  }
  void look_up(std::span<const Item>, std::span<const Digest> digests, std::uint8_t* found) override {
    filter_.may_contain(digests, {found, digests.size()});
  }

 private:
  seenby::BloomFilter<Item, seenby::SplitBlockLayout> filter_;
};

}  // namespace

std::vector<Contender> seenby_contenders() {
  return {{"seenby", [] { return std::make_unique<SeenbyStore>(); },
           [](std::size_t items, double fpr) { return std::make_unique<SeenbySet>(items, fpr); }},
          {"seenby_many", [] { return std::make_unique<SeenbyManyStore>(); }, {}}};
}

std::vector<Contender> seenby_fresh_contenders(bool strings) {
  return strings ? fresh_contenders<std::string>() : fresh_contenders<Item>();
}

BareKernel::BareKernel(std::span<const User> users) {
  Items history;
  for (const User user : users) {
    history_of(user, history);
    const auto shape =
        seenby::sizing::shape_for(seenby::LayoutKind::split_block, history.items.size(), sizing_rate / 2);
    const Filter filter{user, blocks_.size(), static_cast<std::uint32_t>(shape.bits / seenby::split_block_bits)};
    blocks_.resize(blocks_.size() + shape.bytes());
    seenby::detail::insert(blocks_.data() + filter.offset, filter.block_count, history.digests.data(),
                           history.digests.size());
    filters_.push_back(filter);
  }
}

void BareKernel::prepare(std::span<const Items> pages) {
  pages_.clear();
  lanes_.clear();
  for (const Items& page : pages) {
    pages_.push_back(page.digests.data());
    lanes_.push_back(seenby::detail::precompute_lanes(page.digests));
  }
  seen_.resize(page_size);
  unseen_.resize(page_size);
}

std::size_t BareKernel::select(std::span<const Request> requests) {
  std::size_t total = 0;
  for (const Request& request : requests) {
    // Pairs are in the array in the order of the requests: nothing is looked up.
    const Filter& first = filters_[2 * request.page];
    const Filter& second = filters_[2 * request.page + 1];
    const auto& lanes = lanes_[request.page];
    seenby::detail::check_pair({blocks_.data() + first.offset, first.block_count},
                               {blocks_.data() + second.offset, second.block_count},
                               {pages_[request.page], lanes.empty() ? nullptr : lanes.data()}, page_size, seen_.data());
    total += seenby::detail::compress(seen_.data(), page_size, 0, 0, unseen_.data());
  }
  return total;
}

}  // namespace peers
