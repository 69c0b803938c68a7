// SPDX-License-Identifier: MIT
// seenby hide, unhide and hidden: what a user never wants to see, kept in a store or a history for every process.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "history_url.hpp"
#include "input_error.hpp"
#include "item_kind.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/filter_store.hpp"
#include "seenby/stores/history_store.hpp"
#include "store_url.hpp"

namespace seenby::tool {
namespace {

struct HideOptions {
  StoreOptions store;
  std::string history;
  std::string user;
  std::vector<std::string> names;
  std::string items;
};

/// Whether the items are integers, as `said` or, where it says nothing, as they look.
bool are_integers(const HideOptions& options, const std::string& said) {
  const auto name_of = [&](std::uint64_t i) -> const std::string& { return options.names[i]; };
  return kind_of_items(said, options.names.size(), name_of) == ItemKind::integer;
}

template <class Item, class Run>
void with_history(const HideOptions& options, IfMissing if_missing, const Run& run) {
  auto history = open_history<Item>(options.history, if_missing);
  SeenFilter filter(HistoryStore{history});
  run(filter, Item());
}

/// Calls run(filter, an item of its kind) over a history, or a store that keeps hides.
template <class Run>
void with_filter(const HideOptions& options, IfMissing if_missing, const Run& run) {
  if (options.store.url.empty() == options.history.empty()) {
    throw InputError("expected --store or --history, got " + std::string(options.history.empty() ? "neither" : "both"));
  }
  if (!options.history.empty()) {
    const std::string said = options.items.empty() ? "text" : options.items;
    return are_integers(options, said) ? with_history<std::uint64_t>(options, if_missing, run)
                                       : with_history<std::string>(options, if_missing, run);
  }
  with_store(options.store, policy_of(options.store), if_missing, [&](auto& store) {
    const bool integers = are_integers(options, items_in(options.store, options.items));
    SeenFilter filter(std::move(store));
    integers ? run(filter, std::uint64_t{}) : run(filter, std::string());
  });
}

template <class Item>
Item item_of(const std::string& name) {
  if constexpr (std::is_same_v<Item, std::string>) {
    return name;
  } else {
    return *canonical_integer(name);
  }
}

void hide(const HideOptions& options) {
  with_filter(options, IfMissing::create, [&](auto& filter, auto item) {
    std::size_t count = 0;
    for (const std::string& name : options.names) {
      count += value_of(filter.hide(options.user, item_of<decltype(item)>(name))) ? 1U : 0U;
    }
    std::cout << "hid " << count << " of " << options.names.size() << " from " << in_quotes(options.user)
              << (count == options.names.size() ? "\n" : "; the others were hidden already\n");
  });
}

void unhide(const HideOptions& options) {
  with_filter(options, IfMissing::refuse, [&](auto& filter, auto item) {
    std::size_t count = 0;
    for (const std::string& name : options.names) {
      count += value_of(filter.unhide(options.user, item_of<decltype(item)>(name))) ? 1U : 0U;
    }
    std::cout << "took back " << count << " of " << options.names.size() << " hides of " << in_quotes(options.user)
              << (count == options.names.size() ? "\n" : "; the others were not hidden\n");
  });
}

/// Lists both kinds of a store where --items says none.
void hidden(const HideOptions& options) {
  with_filter(options, IfMissing::refuse, [&](auto& filter, auto) {
    using Store = typename std::remove_cvref_t<decltype(filter)>::store_type;
    const auto print = [](const auto& items) {
      for (const auto& item : items) std::cout << item << '\n';
    };
    if constexpr (requires { typename Store::item_type; }) {
      print(value_of(filter.hidden(options.user)));
    } else {
      if (options.items != "text") print(value_of(filter.template hidden<std::uint64_t>(options.user)));
      if (options.items != "integer") print(value_of(filter.template hidden<std::string>(options.user)));
    }
  });
}

void add(CLI::App& app, const std::string& name, const std::string& text, const std::string& footer, bool takes_items,
         std::function<void(const HideOptions&)> run) {
  CLI::App* command = app.add_subcommand(name, text);
  const auto options = std::make_shared<HideOptions>();
  add_store_options(*command, "--store", options->store);
  command->add_option("--history", options->history, "In its place: sqlite:PATH, postgres://HOST/DB or redis://HOST")
      ->type_name("URL");
  command->add_option("--user", options->user, "The user's name")->type_name("NAME")->required();
  if (takes_items) command->add_option("item", options->names, "Items")->type_name("ITEM")->required();
  add_items_option(*command, options->items);
  command->footer(footer);
  command->callback([options, run = std::move(run)] { run(*options); });
}

}  // namespace

void add_hide(CLI::App& app) {
  add(app, "hide", "Never show these items to a user again",
      "Whatever the window. Every process that asks the store heeds it with its next request.\n"
      "Hides in a history are heeded where that history is the store.\n\n"
      "Example:\n"
      "  seenby hide --store lmdb:seen.lmdb --user ann q1 q2",
      true, hide);
  add(app, "unhide", "Take hides back",
      "What was seen stays seen.\n\n"
      "Example:\n"
      "  seenby unhide --store lmdb:seen.lmdb --user ann q1",
      true, unhide);
  add(app, "hidden", "List what a user hid, in the order it was hidden",
      "Example:\n"
      "  seenby hidden --store lmdb:seen.lmdb --user ann",
      false, hidden);
}

}  // namespace seenby::tool
