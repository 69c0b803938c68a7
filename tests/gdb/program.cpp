// SPDX-License-Identifier: MIT
// What tests/gdb/check.sh looks at in gdb.

#include <chrono>
#include <cstdint>
#include <memory>
#include <seenby/seenby.hpp>

namespace {

[[gnu::noinline]] void look_here() { asm volatile(""); }

}  // namespace

int main() {
  const seenby::Digest digest{0x12};
  seenby::BloomFilter<std::uint64_t> filter{{.expected_items = 1'000, .target_fpr = 0.01}};
  for (std::uint64_t item = 0; item < 500; ++item) filter.insert(item);
  const seenby::UserStatus known;
  const seenby::UserStatus away{seenby::UserState::unreachable, std::make_shared<const seenby::Error>(seenby::Error{
                                                                    seenby::ErrorCode::timed_out, "no answer"})};
  const seenby::Result<int> found = 42;
  const seenby::Result<int> failed = seenby::Error{seenby::ErrorCode::io, "disk full"};
  const seenby::Result<void> finished;
  const seenby::Time time{std::chrono::seconds{1'700'000'000}};
  seenby::SeenFilter facade{seenby::MemoryStore{{.wrong_hide_rate = 0.01}}};
  facade.record(std::uint64_t{1}, std::uint64_t{2}).or_throw();
  const seenby::CandidatePool<std::uint64_t> pool{1, 2, 3, 3};
  const auto page = facade.select_unseen(pool, {std::uint64_t{1}}, {.limit = 10});
  look_here();
  return page.empty() || !found || failed || !finished || time == seenby::Time{} || digest.value == 0 ||
         known.state == away.state;
}
