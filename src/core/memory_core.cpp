// SPDX-License-Identifier: MIT
// A memory store's core for one and for two key words, for units built with SEENBY_COMPILED.

#include "seenby/stores/memory/core.hpp"
#include "seenby/stores/memory/core_members.hpp"

SEENBY_DETAIL_BEGIN

template class MemoryCore<1>;
template class MemoryCore<2>;

SEENBY_DETAIL_END
