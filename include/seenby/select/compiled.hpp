#pragma once
// SPDX-License-Identifier: MIT
// The facade over a MemoryStore of integer users, for integer and for string items: with SEENBY_COMPILED its code is in
// seenby::core. Other types compile theirs, as header-only.

#include <cstdint>
#include <string>
#include <string_view>

#include "seenby/select/candidate_pool.hpp"
#include "seenby/select/facade.hpp"
#include "seenby/stores/memory_store.hpp"

#if defined(SEENBY_INSTANTIATE)
#define SEENBY_COMPILED_TEMPLATE template
#elif defined(SEENBY_COMPILED_STORE)
#define SEENBY_COMPILED_TEMPLATE extern template
#endif

#if defined(SEENBY_COMPILED_TEMPLATE)
namespace seenby {

SEENBY_COMPILED_TEMPLATE class MemoryStore<std::uint64_t>;
SEENBY_COMPILED_TEMPLATE class CandidatePool<std::uint64_t>;
SEENBY_COMPILED_TEMPLATE class CandidatePool<std::string>;

}  // namespace seenby

SEENBY_DETAIL_BEGIN

SEENBY_COMPILED_TEMPLATE class CandidateIndex<std::uint64_t>;
SEENBY_COMPILED_TEMPLATE class CandidateIndex<std::string>;
SEENBY_COMPILED_TEMPLATE struct PageState<std::uint64_t>;
SEENBY_COMPILED_TEMPLATE struct PageState<std::string>;
SEENBY_COMPILED_TEMPLATE class Recorder<MemoryStore<std::uint64_t>, NoHistory>;
SEENBY_COMPILED_TEMPLATE class Facade<MemoryStore<std::uint64_t>, NoHistory>;
SEENBY_COMPILED_TEMPLATE Result<RecordOutcome> Recorder<MemoryStore<std::uint64_t>, NoHistory>::write(
    const std::uint64_t&, std::span<const std::uint64_t>, std::optional<Time>);
SEENBY_COMPILED_TEMPLATE Result<RecordOutcome> Recorder<MemoryStore<std::uint64_t>, NoHistory>::write(
    const std::uint64_t&, std::span<const std::string_view>, std::optional<Time>);
SEENBY_COMPILED_TEMPLATE Selection<std::uint64_t>& Facade<MemoryStore<std::uint64_t>, NoHistory>::answer(
    const CandidatePool<std::uint64_t>&, std::span<const std::uint64_t>, const SelectOptions<std::uint64_t>&,
    Selection<std::uint64_t>&) const;
SEENBY_COMPILED_TEMPLATE Selection<std::string>& Facade<MemoryStore<std::uint64_t>, NoHistory>::answer(
    const CandidatePool<std::string>&, std::span<const std::uint64_t>, const SelectOptions<std::string>&,
    Selection<std::string>&) const;

SEENBY_COMPILED_TEMPLATE class PageBuilder<MemoryStore<std::uint64_t>, NoHistory, std::uint64_t>;
SEENBY_COMPILED_TEMPLATE class PageBuilder<MemoryStore<std::uint64_t>, NoHistory, std::string>;

SEENBY_DETAIL_END

#undef SEENBY_COMPILED_TEMPLATE
#endif
