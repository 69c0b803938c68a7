// SPDX-License-Identifier: MIT
// seenby inspect over an LMDB file: a user's fingerprint table.

#include "inspect.hpp"

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "input_error.hpp"
#include "report.hpp"
#include "seenby/filters/fingerprint/format.hpp"
#include "time_text.hpp"
#include "units.hpp"

namespace seenby::tool {
namespace {

std::size_t count_entries(const TableValue& value, SectionKind kind) {
  const auto section = value.section(kind);
  return section.empty() ? 0 : value_of(decode_entries(section)).size();
}

}  // namespace

void inspect_lmdb(const InspectOptions& options) {
  auto store = open_lmdb(options.store, policy_of(options.store), IfMissing::refuse);
  const auto blob = value_of(store.backend().load(options.user));
  if (!blob) {
    throw std::runtime_error(in_quotes(options.store.url) + ": expected a filter of user " + in_quotes(options.user) +
                             ", got no key of this name");
  }
  const TableValue value = value_of(decode_table(*blob));
  const TableHeader& header = value.header;
  const std::size_t hides = count_entries(value, SectionKind::hides);
  const std::size_t kept = count_entries(value, SectionKind::kept_last);
  if (options.json) {
    std::cout << nlohmann::ordered_json{{"user", options.user},
                                        {"bytes", blob->size()},
                                        {"layout", "fingerprint_table"},
                                        {"items", header.count},
                                        {"slice_seconds", header.slice_seconds},
                                        {"target_fpr", header.share},
                                        {"hides", hides},
                                        {"kept_last", kept},
                                        {"sequence", header.sequence}}
                     .dump(2)
              << '\n';
    return;
  }
  Report report;
  report.heading("User " + in_quotes(options.user));
  report.row("bytes", with_commas(blob->size()));
  report.row("layout", "fingerprint table");
  report.row("items", with_commas(header.count));
  if (header.slice_seconds != 0) {
    report.row("slices", as_duration(std::chrono::seconds{header.slice_seconds}) + " each, the newest from " +
                             as_time(std::int64_t{header.newest} * header.slice_seconds));
  }
  report.row("false positives", "budget " + as_percent(header.share));
  report.row("hidden for good", with_commas(hides));
  report.row("last items kept", with_commas(kept));
  std::cout << report;
}

}  // namespace seenby::tool
