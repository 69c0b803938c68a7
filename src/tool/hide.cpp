// SPDX-License-Identifier: MIT
// seenby hide, unhide and hidden: what a user never wants to see, kept in the store for every process.

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "input_error.hpp"
#include "item_kind.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/stores/filter_store.hpp"
#include "store_url.hpp"

namespace seenby::tool {
namespace {

struct HideOptions {
  StoreOptions store;
  std::string user;
  std::vector<std::string> names;
  std::string items;
};

/// Calls run(filter, an item of its kind) over a store that keeps hides.
template <class Run>
void with_filter(const HideOptions& options, IfMissing if_missing, const Run& run) {
  with_store(options.store, policy_of(options.store), if_missing, [&](auto& store) {
    if constexpr (HidingStore<std::decay_t<decltype(store)>>) {
      const auto name_of = [&](std::uint64_t i) -> const std::string& { return options.names[i]; };
      const std::string said = items_in(options.store, options.items);
      const bool integers = options.names.empty()
                                ? said == "integer"
                                : kind_of_items(said, options.names.size(), name_of) == ItemKind::integer;
      SeenFilter filter(std::move(store));
      integers ? run(filter, std::uint64_t{}) : run(filter, std::string());
    } else {
      throw InputError("--store: expected a store that keeps hides, got one of '" +
                       std::string(options.store.url.substr(0, options.store.url.find(':'))) + "'");
    }
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

/// Lists both kinds where --items says none.
void hidden(const HideOptions& options) {
  with_filter(options, IfMissing::refuse, [&](auto& filter, auto) {
    const auto print = [](const auto& items) {
      for (const auto& item : items) std::cout << item << '\n';
    };
    if (options.items != "text") print(value_of(filter.template hidden<std::uint64_t>(options.user)));
    if (options.items != "integer") print(value_of(filter.template hidden<std::string>(options.user)));
  });
}

void add(CLI::App& app, const std::string& name, const std::string& text, const std::string& footer, bool takes_items,
         std::function<void(const HideOptions&)> run) {
  CLI::App* command = app.add_subcommand(name, text);
  const auto options = std::make_shared<HideOptions>();
  add_store_options(*command, "--store", options->store)->required();
  command->add_option("--user", options->user, "The user's name")->type_name("NAME")->required();
  if (takes_items) command->add_option("items", options->names, "Items")->type_name("ITEM")->required();
  add_items_option(*command, options->items);
  command->footer(footer);
  command->callback([options, run = std::move(run)] { run(*options); });
}

}  // namespace

void add_hide(CLI::App& app) {
  add(app, "hide", "Never show these items to a user again",
      "Whatever the window. Every process that asks the store heeds it with its next request.\n\n"
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
