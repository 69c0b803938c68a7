// SPDX-License-Identifier: MIT
// A key-value store of your own becomes a filter store: load, compare-and-swap and erase are all it takes.
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <seenby/select/candidate_pool.hpp>
#include <seenby/select/seen_filter.hpp>
#include <seenby/stores/blob_store.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// An example of a store with compare-and-swap: it writes a value only if no other writer has changed it since.
class MapBackend {
 public:
  seenby::Result<std::optional<seenby::Blob>> load(std::string_view key) const {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->values.find(key);
    return found == shared_->values.end() ? std::nullopt : std::optional(found->second);
  }
  seenby::Result<bool> compare_and_swap(std::string_view key, const std::optional<seenby::Blob>& expected,
                                        const seenby::Blob& desired) {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->values.find(key);
    const auto current = found == shared_->values.end() ? std::nullopt : std::optional(found->second);
    if (current != expected) return false;
    shared_->values.insert_or_assign(std::string(key), desired);
    return true;
  }
  seenby::Result<bool> erase(std::string_view key) {
    const std::lock_guard lock(shared_->mutex);
    return shared_->values.erase(std::string(key)) != 0;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::map<std::string, seenby::Blob, std::less<>> values;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace

int main() {
  using Store = seenby::BlobStore<MapBackend, std::string>;
  const MapBackend backend;
  seenby::SeenFilter filter{Store(backend, {.wrong_hide_rate = 0.01})};
  filter.record_all("ann", std::vector<std::string>{"post-1", "post-3"}).or_throw();

  const seenby::CandidatePool posts{"post-1", "post-2", "post-3", "post-4"};
  const auto page = filter.select_unseen(posts, {"ann"});
  for (const auto& pick : page) std::printf("ann: %s\n", pick.item.c_str());

  // The filter is in the backend, so another process that opens it knows the same; here, another SeenFilter.
  const seenby::SeenFilter reopened{Store(backend, {.wrong_hide_rate = 0.01})};
  std::printf("reopened: %zu of %zu unseen\n", reopened.select_unseen(posts, {"ann"}).size(), posts.size());
  const auto stranger = reopened.select_unseen(posts, {"zoe"}, {.on_unknown = seenby::OnUnknown::hide});
  std::printf("zoe: %zu shown, %zu user unknown\n", stranger.size(), stranger.unknown_users().size());
  std::printf("ann takes %zu bytes\n", backend.load("ann").value()->size());
}
