#pragma once
// SPDX-License-Identifier: MIT
// The subcommands: each adds itself to the command line and runs from there.

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace seenby::tool {

void add_generate(CLI::App& app);
void add_plan(CLI::App& app);
void add_replay(CLI::App& app);
void add_select(CLI::App& app);
void add_record(CLI::App& app);
void add_verify(CLI::App& app);
void add_repair(CLI::App& app);
void add_inspect(CLI::App& app);
/// hide, unhide and hidden.
void add_hide(CLI::App& app);
// With seenby::ingest alone.
void add_ingest(CLI::App& app);
// With seenby::redis alone.
void add_bench(CLI::App& app);

}  // namespace seenby::tool
