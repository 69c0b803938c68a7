// SPDX-License-Identifier: MIT
// Feeds bytes to the decoder of format 2 and to a BlobStore: a typed error, or a table that behaves whatever kernel
// asks it; never a crash or a large allocation.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "seenby/filters/fingerprint/format.hpp"
#include "seenby/stores/blob_store.hpp"

namespace {

using seenby::Digest;
using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

/// A store of one value.
struct OneBlob {
  std::optional<seenby::Blob>* value;

  seenby::Result<std::optional<seenby::Blob>> load(std::string_view key) const {
    return key == "1" ? *value : std::optional<seenby::Blob>{};
  }
  seenby::Result<bool> compare_and_swap(std::string_view, const std::optional<seenby::Blob>& expected,
                                        const seenby::Blob& desired) const {
    if (*value != expected) return false;
    *value = desired;
    return true;
  }
  seenby::Result<bool> erase(std::string_view) const { return false; }
};

/// What a store takes for a value it can record into, and what was in it stays.
void store(Bytes bytes, std::chrono::seconds window, Digest old) {
  std::optional<seenby::Blob> value(seenby::Blob(bytes.begin(), bytes.end()));
  const seenby::Clock clock =
      seenby::Clock::simulated([] { return seenby::Time{std::chrono::seconds{1'728'000'000}}; });
  seenby::BlobStore<OneBlob> blobs(OneBlob{&value},
                                   {.window = window, .slices = window.count() == 0 ? 1U : 3U, .clock = clock});
  const std::uint64_t user = 1;
  const std::vector<std::uint64_t> items(2);
  const std::vector<Digest> digests{old, Digest{~old.value}};
  const seenby::ItemBatch<std::uint64_t> batch{items, digests};
  const auto seen = [&] {
    std::vector<std::uint8_t> seen_by(2);
    std::vector<seenby::UserStatus> status(1);
    blobs.check(std::span(&user, 1), batch, std::span(seen_by), std::span(status));
    return status[0].state == seenby::UserState::known ? seen_by : std::vector<std::uint8_t>{};
  };
  const auto before = seen();
  const auto recorded = blobs.record(user, batch.subspan(1, 1));
  require(recorded.has_value() == !before.empty());
  if (!recorded) return;
  const auto after = seen();
  require(after.size() == 2 && after[0] >= before[0] && after[1] == 1);
}

void decode(Bytes bytes) {
  const auto header = seenby::decode_table_header(bytes, bytes.size());
  const auto value = seenby::decode_table(bytes);
  if (value) require(header.has_value());
  if (!value) require(!value.error().message.empty());
  Digest first{0x123456789abcdef0U};
  if (value) {
    std::vector<Digest> digests(40, first);
    for (std::size_t i = 0; i < digests.size(); ++i) digests[i].value *= i;
    std::vector<std::uint8_t> seen(digests.size());
    for (const auto& kernel : seenby::detail::compiled_kernels()) {
      if (!kernel.runs_here()) continue;
      kernel.check_table(value->table.ref(), digests.data(), digests.size(), seen.data(),
                         seenby::detail::Answers::replace);
      for (std::size_t i = 0; i < digests.size(); ++i) require((seen[i] != 0) == value->table.may_contain(digests[i]));
    }
    const double fpr = value->table.estimated_fpr();
    require(fpr >= 0 && fpr <= 1);
    for (const auto kind : {seenby::SectionKind::hides, seenby::SectionKind::kept_last}) {
      if (const auto entries = seenby::decode_entries(value->section(kind)); !entries) {
        require(!entries.error().message.empty());
      }
    }
  }
  store(bytes, std::chrono::seconds{0}, first);
  store(bytes, std::chrono::hours{72}, first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  decode(bytes);
  // A checksum keeps random bytes out; mended, it lets them reach what lies behind it.
  if (size < seenby::table_header_bytes) return 0;
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  const bool covers = (data[1] & seenby::detail::covers_bits_flag) != 0;
  const Bytes whole = mended;
  seenby::detail::store_le(mended.data() + 44,
                           seenby::detail::table_checksum(whole.first(seenby::table_header_bytes), covers,
                                                          whole.subspan(seenby::table_header_bytes)));
  decode(mended);
  return 0;
}
