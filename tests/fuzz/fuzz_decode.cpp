// SPDX-License-Identifier: MIT
// Feeds bytes to the decoder of format v1: a typed error, or a filter that behaves; never a crash or a large
// allocation.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "seenby/detail/bits.hpp"
#include "seenby/filters/bloom_filter.hpp"
#include "seenby/filters/bloom_filter_view.hpp"
#include "seenby/filters/format.hpp"
#include "seenby/filters/layout/split_block.hpp"

namespace {

using seenby::Digest;
using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Layout, class Hash>
void decode_as(Bytes bytes) {
  using Filter = seenby::BloomFilter<std::uint64_t, Layout, Hash>;
  const auto view = Filter::view_type::over(bytes);
  auto filter = Filter::decode(bytes);
  require(view.has_value() == filter.has_value());
  if (!filter) {
    require(!filter.error().message.empty());
    return;
  }
  // What was decoded encodes to something that decodes to the same.
  const auto again = Filter::decode(filter->encode());
  require(again.has_value() && *again == *filter && again->target_fpr() == filter->target_fpr());
  // It answers as its view does, estimates are finite, and an insert is found.
  const Digest digest = filter->hasher()(std::uint64_t{bytes.size()});
  require(view->may_contain(digest) == filter->may_contain(digest));
  require(filter->fill_ratio() >= 0 && filter->fill_ratio() <= 1);
  require(filter->estimated_fpr() >= 0 && filter->estimated_fpr() <= 1);
  filter->insert(digest);
  require(filter->may_contain(digest));
}

void decode(Bytes bytes) {
  decode_as<seenby::ClassicLayout, seenby::Xxh3Hash>(bytes);
  decode_as<seenby::SplitBlockLayout, seenby::Xxh3Hash>(bytes);
  decode_as<seenby::SplitBlockLayout, seenby::Xxh64Hash>(bytes);
  decode_as<seenby::ClassicLayout, seenby::Mix64Hash>(bytes);
  // A store reads the header of a long value alone.
  const auto header = seenby::decode_header(bytes.first(std::min(bytes.size(), seenby::header_bytes)), bytes.size());
  if (header) require(header->shape.bytes() + seenby::header_bytes == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  decode(bytes);
  // A checksum keeps random bytes out; mended, it lets them reach what lies behind it.
  if (size < seenby::header_bytes) return 0;
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  const bool covers_bits = (data[1] & seenby::detail::covers_bits_flag) != 0;
  const Bytes whole = mended;
  seenby::detail::store_le(mended.data() + 28,
                           seenby::detail::header_checksum(whole.first(seenby::header_bytes), covers_bits,
                                                           whole.subspan(seenby::header_bytes)));
  decode(mended);
  return 0;
}
