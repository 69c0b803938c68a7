#pragma once
// SPDX-License-Identifier: MIT
// The umbrella: everything that needs only xxHash.

#include "seenby/blob_store.hpp"
#include "seenby/bloom_filter.hpp"
#include "seenby/bloom_filter_view.hpp"
#include "seenby/candidate_pool.hpp"
#include "seenby/filter_store.hpp"
#include "seenby/hash.hpp"
#include "seenby/history.hpp"
#include "seenby/layout/classic.hpp"
#include "seenby/layout/split_block.hpp"
#include "seenby/namespaces.hpp"
#include "seenby/over_fetch.hpp"
#include "seenby/result.hpp"
#include "seenby/rotating_filter.hpp"
#include "seenby/salted_store.hpp"
#include "seenby/scalable_filter.hpp"
#include "seenby/seen_filter.hpp"
#include "seenby/selection.hpp"
#include "seenby/serialization.hpp"
#include "seenby/sizing.hpp"
#include "seenby/version.hpp"
