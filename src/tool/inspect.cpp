// SPDX-License-Identifier: MIT
// seenby inspect: what a user's filters in a store hold.

#include "inspect.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.hpp"

namespace seenby::tool {
namespace {

void inspect(const InspectOptions& options) {
  switch (kind_of_store(options.store.url)) {
    case StoreKind::lmdb:
#ifdef SEENBY_TOOL_WITH_LMDB
      inspect_lmdb(options);
#endif
      return;
    case StoreKind::redis:
#ifdef SEENBY_TOOL_WITH_REDIS
      inspect_redis(options);
#endif
      return;
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a user's filters in a store hold");
  const auto options = std::make_shared<InspectOptions>();
  add_store_options(*command, "store", options->store)->required();
  command->add_option("user", options->user, "The user's name")->type_name("USER")->required();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->footer(
      "Reads, and changes nothing. With --window a user in Redis is one table; slices that an earlier\n"
      "version kept under keys of their own are shown while they last.\n\n"
      "Example:\n"
      "  seenby inspect redis://127.0.0.1/ ann");
  command->callback([options] { inspect(*options); });
}

}  // namespace seenby::tool
