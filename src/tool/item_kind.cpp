// SPDX-License-Identifier: MIT
// The option that says what items are.

#include "item_kind.hpp"

#include <CLI/CLI.hpp>

#include "input_error.hpp"

namespace seenby::tool {

void add_items_option(CLI::App& command, std::string& items) {
  command
      .add_option("--items", items,
                  "What items are to those who share the store: integer (uint64_t), text\n"
                  "(default: integer where all are; text in an LMDB file or a history)")
      ->type_name("KIND")
      ->check(CLI::IsMember({"integer", "text"}));
}

void refuse_item(std::string_view item) {
  throw InputError("--items: expected integers from 0 to 2^64 - 1 without leading zeros, got " + in_quotes(item) +
                   "; --items text takes them as they are");
}

}  // namespace seenby::tool
