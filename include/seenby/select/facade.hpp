#pragma once
// SPDX-License-Identifier: MIT
// A SeenFilter's way of a request: from its public members to the store and back to a page.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "seenby/detail/range.hpp"
#include "seenby/detail/user_key.hpp"
#include "seenby/observer.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/candidates.hpp"
#include "seenby/select/page_builder.hpp"
#include "seenby/select/recorder.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/select/shadow.hpp"
#include "seenby/stores/filter_store.hpp"

SEENBY_DETAIL_BEGIN

/// Requests beside records. Thread-safe.
template <class Store, class History>
class Facade : protected Recorder<Store, History> {
  using Base = Recorder<Store, History>;

 protected:
  using Base::Base;
  using Base::check_one, Base::counters_, Base::exact_, Base::history_, Base::now, Base::store_;
  using typename Base::user_type, typename Base::hasher_type;
  template <class Item>
  using Request = seenby::Request<user_type, Item, hasher_type>;
  template <class Item>
  using Builder = PageBuilder<Store, History, Item>;

  /// Returns the page: the names a shared library exports are seenby's by their first word, and a template's name
  /// begins with what it returns.
  template <class Source, class Item>
  Selection<Item>& answer(const Source& candidates, std::span<const user_type> users,
                          const SelectOptions<Item, hasher_type>& options, Selection<Item>& page) const;
  template <class Item>
  void select_all(std::span<const Request<Item>> requests, std::span<Selection<Item>> pages) const;
  template <class Item>
  void tell(std::chrono::steady_clock::time_point start, std::size_t users, const Selection<Item>& page) const;
  template <class Item>
  void judge(const ItemBatch<Item>& asked, std::span<const user_type> users, Selection<Item>& page) const;

  template <class Item>
  [[nodiscard]] Candidates<Item> candidates_of(const CandidatePool<Item, hasher_type>& pool,
                                               CandidateIndex<Item>&) const {
    if (pool.hasher().seed() != store_.hasher().seed()) throw_other_seed();
    return pool.candidates();
  }
  template <class Item>
  [[nodiscard]] Candidates<Item> candidates_of(const ItemBatch<Item>& batch, CandidateIndex<Item>& index) const {
    index.take(batch.items, batch.digests, store_.hasher());
    return index.of(batch.items);
  }
  template <ContiguousRange Range, class Item>
  [[nodiscard]] Candidates<Item> candidates_of(const Range& range, CandidateIndex<Item>& index) const {
    const std::span<const Item> items(std::ranges::data(range), std::ranges::size(range));
    index.hash(items, store_.hasher());
    return index.of(items);
  }

  template <class Item>
  void finish(const ItemBatch<Item>& asked, std::span<const user_type> users,
              std::chrono::steady_clock::time_point start, Selection<Item>& page) const {
    counters_.count(page, users.size(), store_.policy().users_per_request);
    if (exact_->shadow) judge(asked, users, page);
    if (exact_->timing) tell(start, users.size(), page);
  }

  template <class Item>
  [[nodiscard, gnu::always_inline]] auto expect(std::span<const user_type> users) const noexcept {
    if constexpr (ExpectingStoreFor<Store, Item>) {
      return store_.expect(users);
    } else {
      return 0;
    }
  }

  static void require_users(std::size_t users) {
    if (users >= 1 && users <= 255) return;
    std::string message = "seenby: expected 1 to 255 users in a request, got ";
    throw std::invalid_argument(message.append(std::to_string(users)));
  }
};

// Not in line: a unit whose types seenby::core has compiled does not compile them again.

template <class Store, class History>
template <class Source, class Item>
Selection<Item>& Facade<Store, History>::answer(const Source& candidates, std::span<const user_type> users,
                                                const SelectOptions<Item, hasher_type>& options,
                                                Selection<Item>& page) const {
  require_users(users.size());
  const auto start = begin_of(exact_->timing.get());
  const auto expected = expect<Item>(users);  // before all else: the users' lines are on the way meanwhile
  const Candidates<Item> asked = candidates_of(candidates, page.state().own);
  Builder<Item> builder(store_, exact_->overlays, history_, asked, users, options, page.state());
  builder.run(expected);
  finish(asked.distinct, users, start, page);
  if (page.state().raises) throw BadResult(*page.error());
  return page;
}

template <class Store, class History>
template <class Item>
void Facade<Store, History>::select_all(std::span<const Request<Item>> requests,
                                        std::span<Selection<Item>> pages) const {
  if (pages.size() < requests.size()) {
    throw std::invalid_argument("seenby: expected a page for every request, got fewer pages than requests");
  }
  const auto start = begin_of(exact_->timing.get());
  std::vector<Builder<Item>> builders;
  std::vector<CheckRequest<user_type, Item>> questions;
  builders.reserve(requests.size());
  questions.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request<Item>& request = requests[i];
    require_users(request.users().size());
    const auto asked = candidates_of(request.pool(), pages[i].state().own);
    builders.emplace_back(store_, exact_->overlays, history_, asked, request.users(), request.options(),
                          pages[i].state());
    questions.push_back(builders.back().question(0, asked.distinct.size()));
  }
  if constexpr (BatchingStoreFor<Store, Item>) {
    store_.check_many(std::span<const CheckRequest<user_type, Item>>(questions));
  } else {
    for (const auto& question : questions) {
      store_.check(question.users, question.batch, question.seen_by, question.status);
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (builders[i].absorb(0, questions[i].batch.size())) builders[i].relax();
    finish(questions[i].batch, requests[i].users(), start, pages[i]);
  }
  for (Selection<Item>& page : pages.first(requests.size())) {
    if (page.state().raises) throw BadResult(*page.error());
  }
}

template <class Store, class History>
template <class Item>
void Facade<Store, History>::tell(std::chrono::steady_clock::time_point start, std::size_t users,
                                  const Selection<Item>& page) const {
  observe_call(exact_->timing->request, exact_->timing->observer,
               {"select", start, {}, users, page.checked(), page.error() ? &*page.error() : nullptr});
}
template <class Store, class History>
template <class Item>
void Facade<Store, History>::judge(const ItemBatch<Item>& asked, std::span<const user_type> users,
                                   Selection<Item>& page) const {
  struct Judged {
    const Facade& facade;
    const ItemBatch<Item>& asked;
    std::span<const user_type> users;
  } const judged{*this, asked, users};
  exact_->shadow->judge(
      {.users = users.size(),
       .digests = asked.digests,
       .policy = store_.policy(),
       .now = now(),
       .limit = page.state().limit,
       .underfilled = page.underfilled(),
       .request = &judged,
       .key_of = [](const void* of, std::size_t user) { return user_key(static_cast<const Judged*>(of)->users[user]); },
       .check =
           [](const void* of, std::size_t user, std::span<std::uint8_t> seen_by, UserStatus& status) {
             const auto& [facade, batch, all] = *static_cast<const Judged*>(of);
             facade.check_one(all[user], batch, seen_by, status);
           }});
}

SEENBY_DETAIL_END
