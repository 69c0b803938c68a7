#pragma once
// SPDX-License-Identifier: MIT
// The umbrella: everything that needs only xxHash.

// Windows' macros of these names would take the standard library's functions.
#pragma push_macro("min")
#pragma push_macro("max")
#undef min
#undef max

#include "seenby/answer.hpp"
#include "seenby/clock.hpp"
#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/counting_bloom_filter.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/classic.hpp"
#include "seenby/filters/layout/split_block.hpp"
#include "seenby/filters/partitioned_filter.hpp"
#include "seenby/filters/rotating_filter.hpp"
#include "seenby/filters/scalable_filter.hpp"
#include "seenby/gates/duplicate_screen.hpp"
#include "seenby/gates/erasable_gate.hpp"
#include "seenby/gates/existence_gate.hpp"
#include "seenby/gates/negative_cache.hpp"
#include "seenby/gates/read_path.hpp"
#include "seenby/hash.hpp"
#include "seenby/histories/history.hpp"
#include "seenby/histories/memory_history.hpp"
#include "seenby/histories/replay.hpp"
#include "seenby/kernels.hpp"
#include "seenby/latency_histogram.hpp"
#include "seenby/result.hpp"
#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/compiled.hpp"
#include "seenby/select/namespace.hpp"
#include "seenby/select/over_fetch.hpp"
#include "seenby/select/page_mixer.hpp"
#include "seenby/select/seen_filter.hpp"
#include "seenby/select/selection.hpp"
#include "seenby/select/shared_pool.hpp"
#include "seenby/sets/dense_id_set.hpp"
#include "seenby/sets/exact_set.hpp"
#include "seenby/sets/recent_set.hpp"
#include "seenby/sizing.hpp"
#include "seenby/stores/blob_store.hpp"
#include "seenby/stores/history_store.hpp"
#include "seenby/stores/memory_store.hpp"
#include "seenby/stores/salted_store.hpp"
#include "seenby/version.hpp"

#pragma pop_macro("min")
#pragma pop_macro("max")
