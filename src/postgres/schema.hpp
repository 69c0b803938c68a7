#pragma once
// SPDX-License-Identifier: MIT
// The tables of a history in PostgreSQL, version by version, and its months.

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "pool.hpp"
#include "seenby/clock.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby::postgres {

/// Creates the tables, or brings those of an older version up to date; then compares the kinds of users and items with
/// those that are written there.
Result<void> prepare_schema(Pool& pool, const std::string& schema, ItemKind user_kind, ItemKind item_kind);

/// The month of a time that has a partition of its own; nothing where `events_other` takes it.
[[nodiscard]] std::optional<std::chrono::year_month> month_of(Time time, Time now);

/// Creates each month's partition unless there is one, or unless `events_other` holds rows of that month already. One
/// round trip.
Result<void> create_months(Pool& pool, const std::string& schema, const std::set<std::chrono::year_month>& months,
                           Deadline deadline);

/// Drops the months that were over at a time; how many.
Result<std::size_t> drop_months(Pool& pool, const std::string& schema, Time time);

}  // namespace seenby::postgres
