// SPDX-License-Identifier: MIT
// Feeds bytes to MemoryStore::restore: a typed error that leaves the store as it was, or a store that answers and
// writes the same users again.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/bits.hpp"
#include "seenby/hash.hpp"
#include "seenby/stores/memory/snapshot_format.hpp"
#include "seenby/stores/memory_store.hpp"

namespace {

using Bytes = std::span<const std::byte>;
using Store = seenby::MemoryStore<std::uint64_t>;

void require(bool condition) {
  if (!condition) std::abort();
}

/// A file that is in memory alone, under a path.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : fd_(memfd_create("snapshot", MFD_CLOEXEC)) {
    require(fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  [[nodiscard]] std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// One user who has seen one item: what a refused restore must leave alone.
constexpr std::uint64_t keeper = 77;

bool has_seen(const Store& store, std::uint64_t user, std::uint64_t item) {
  const std::array users{user};
  const std::array items{item};
  const std::array digests{store.hasher()(item)};
  std::array<std::uint8_t, 1> seen{};
  std::array<seenby::UserStatus, 1> status{};
  store.check(users, seenby::ItemBatch<std::uint64_t>{.items = items, .digests = digests}, seen, status);
  return seen[0] != 0;
}

std::unique_ptr<Store> store_with_keeper() {
  auto store = std::make_unique<Store>(seenby::StorePolicy{},
                                       seenby::MemoryOptions{.shards = 1, .max_bytes = std::uint64_t{1} << 26});
  const std::array digests{store->hasher()(std::uint64_t{5})};
  require(store->record_digests(keeper, digests).has_value());
  return store;
}

void restore(Bytes bytes) {
  static auto kept = store_with_keeper();  // a store takes longer to make than a refusal
  const MemoryFile file(bytes);
  const auto restored = kept->restore(file.path());
  if (!restored) {
    require(!restored.error().message.empty() && has_seen(*kept, keeper, 5) && kept->counters().users == 1);
    return;
  }
  const auto used = std::exchange(kept, store_with_keeper());
  Store& store = *used;
  const std::array digests{store.hasher()(std::uint64_t{5})};
  // It takes records, by whatever sizes and counts it was given, or says why not; then it is asked for them.
  for (std::uint64_t user = 0; user < 4; ++user) {
    if (store.record_digests(user, digests)) require(has_seen(store, user, 5));
  }
}

/// The bytes with every checksum made right, as far as the sections can be followed.
std::vector<std::byte> mended(Bytes bytes) {
  using seenby::detail::load_le;
  using seenby::detail::store_le;
  using seenby::detail::xxh3_bytes;
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const auto sign = [&](std::size_t from, std::size_t to) {
    if (to + 8 <= copy.size()) store_le(copy.data() + to, xxh3_bytes(copy.data() + from, to - from, 0));
    return to + 8 <= copy.size();
  };
  std::size_t at = seenby::detail::snapshot_header_bytes;
  if (!sign(0, at - 8)) return copy;
  while (sign(at, at + seenby::detail::snapshot_section_bytes - 8)) {
    const auto size = load_le<std::uint64_t>(copy.data() + at + 16);
    const std::size_t payload = at + seenby::detail::snapshot_section_bytes;
    if (size > copy.size() - payload || !sign(payload, payload + static_cast<std::size_t>(size))) break;
    at = payload + static_cast<std::size_t>(size) + 8;
  }
  return copy;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  restore(bytes);
  restore(mended(bytes));
  return 0;
}
