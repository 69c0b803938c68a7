#pragma once
// SPDX-License-Identifier: MIT
// The tables of a history in SQLite, version by version.

#include <chrono>

#include "connection.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

namespace seenby::sqlite {

/// Creates the tables, or brings those of an older version up to date, in one transaction; then compares the kinds of
/// users and items with those that are written there. Refuses a file of another program before it changes anything.
/// Waits at most `busy_timeout` for each of the locks it takes.
Result<void> prepare_schema(const Connection& connection, ItemKind user_kind, ItemKind item_kind,
                            std::chrono::milliseconds busy_timeout);

}  // namespace seenby::sqlite
