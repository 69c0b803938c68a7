#pragma once
// SPDX-License-Identifier: MIT
// SIGTERM and SIGINT, for commands that stop cleanly.

namespace seenby::tool {

/// Catches SIGTERM and SIGINT from now on; a second one ends the process at once. A system call that waits returns
/// early.
void catch_stop_signals();
/// Whether one came.
[[nodiscard]] bool stop_asked() noexcept;

}  // namespace seenby::tool
