#pragma once
// SPDX-License-Identifier: MIT
// What `seenby select` does over any store: read the candidates, ask, print the page.

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "event_log.hpp"
#include "input_error.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/selection.hpp"

namespace seenby::tool {

/// What the command line asks for, wherever the filters are.
struct SelectionWishes {
  std::string candidates;          ///< a file, or "-"
  std::vector<std::string> users;  ///< sorted, each once
  std::size_t limit = 10;
  OnUnknown on_unknown = OnUnknown::show;
  bool verify = true;    ///< where there is a history
  bool reasons = false;  ///< printed behind each pick
  OnBadLine on_bad_line = OnBadLine::fail;
};

/// Prints a page, which keeps the candidates' order; tells standard error which users nothing is known of. Throws
/// std::runtime_error when a user could not be asked, or is unknown and the wish is to fail.
template <class Item, class Filter>
void print_page(const Filter& filter, const SelectionWishes& wishes, std::vector<Item> items) {
  using Hash = typename Filter::hasher_type;
  const CandidatePool<Item, Hash> pool(std::move(items), filter.store().hasher());
  SelectOptions<Item, Hash> options;
  options.limit = wishes.limit;
  // An unknown user is named here, where users have names.
  options.on_unknown = wishes.on_unknown == OnUnknown::fail ? OnUnknown::hide : wishes.on_unknown;
  options.on_unreachable = OnUnknown::fail;
  if (Filter::has_history && wishes.verify) options.relax = {Verify{.lookups = pool.size() * wishes.users.size()}};
  const auto page = filter.select_unseen(pool, std::span(wishes.users), options);
  if (page.error()) throw std::runtime_error(page.error()->message);
  for (const UnknownUser& unknown : page.unknown_users()) {
    const std::string message = "nothing is known of user " + in_quotes(wishes.users[unknown.user_index]);
    if (wishes.on_unknown == OnUnknown::fail) {
      throw std::runtime_error(message + "; --on-unknown show prints what the others have not seen");
    }
    std::cerr << "seenby: " << message
              << (wishes.on_unknown == OnUnknown::show ? ", so nothing is hidden for them" : "") << '\n';
  }
  for (const auto& pick : page) {
    std::cout << pick.item;
    if (wishes.reasons) std::cout << '\t' << to_string(pick.reason);
    std::cout << '\n';
  }
}

/// As above, of the candidates as text.
template <class Filter>
void print_page(const Filter& filter, const SelectionWishes& wishes) {
  print_page(filter, wishes, read_items(wishes.candidates, wishes.on_bad_line));
}

}  // namespace seenby::tool
