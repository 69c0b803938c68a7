// SPDX-License-Identifier: MIT
// Files behind a gate: does the id exist, what is it, may this user have it, and only then its bytes. The gate spares
// reads; it grants nothing.
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <seenby/gates/read_path.hpp>
#include <seenby/select/namespace.hpp>
#include <set>
#include <string>

namespace {

struct Metadata {
  std::string owner;
  std::set<std::string> shared_with;
};
using Gate = seenby::ExistenceGate<std::string>;

/// The files of many tenants. A tenant's id is the tenant and the id, so that one tells nothing of another's.
class Files {
 public:
  void put(const seenby::Namespace& tenant, const std::string& id, Metadata metadata, std::string bytes) {
    gate_.add(tenant(id));  // before the record can be seen
    storage_[tenant(id)] = std::move(bytes);
    records_[tenant(id)] = std::move(metadata);
  }
  /// The gate keeps the id until the next rebuild; the metadata do not.
  void remove(const seenby::Namespace& tenant, const std::string& id) { records_.erase(tenant(id)); }

  /// 200 with the file's bytes, 403, or 404.
  int get(const seenby::Namespace& tenant, const std::string& id, const std::string& user, std::string& bytes) {
    const auto metadata = path_.find(tenant(id)).or_throw();
    if (!metadata) return 404;
    ++permission_checks;
    if (metadata->owner != user && !metadata->shared_with.contains(user)) return 403;
    ++storage_reads;
    bytes = storage_.at(tenant(id));
    return 200;
  }
  /// Every id that has metadata, read once.
  void rebuild() {
    auto rebuild = gate_.begin_rebuild(1'000);
    for (const auto& [id, metadata] : records_) rebuild.add(id);
    rebuild.commit();
  }

  std::size_t metadata_reads = 0;
  std::size_t permission_checks = 0;
  std::size_t storage_reads = 0;

 private:
  std::map<std::string, Metadata> records_;
  std::map<std::string, std::string> storage_;
  Gate gate_{{}};
  seenby::ReadPath<std::string, Metadata> path_{
      gate_, {.database = [this](const std::string& id) -> seenby::Result<std::optional<Metadata>> {
        ++metadata_reads;
        const auto found = records_.find(id);
        return found == records_.end() ? std::nullopt : std::optional(found->second);
      }}};
};

void show(Files& files, const seenby::Namespace& tenant, const std::string& id, const std::string& user) {
  files.metadata_reads = files.permission_checks = files.storage_reads = 0;
  std::string bytes;
  const int status = files.get(tenant, id, user, bytes);
  std::printf("%-5s asks for %-12s %d  %zu metadata, %zu permission, %zu storage%s%s\n", user.c_str(), id.c_str(),
              status, files.metadata_reads, files.permission_checks, files.storage_reads, bytes.empty() ? "" : ": ",
              bytes.c_str());
}

}  // namespace

int main() {
  Files files;
  const seenby::Namespace acme{"acme"};
  const seenby::Namespace rival{"rival"};
  files.rebuild();
  files.put(acme, "plan.pdf", {.owner = "ada", .shared_with = {"bob"}}, "the plan");
  files.put(acme, "old.pdf", {.owner = "ada", .shared_with = {}}, "long ago");
  files.remove(acme, "old.pdf");

  show(files, acme, "plan.pdf", "ada");
  show(files, acme, "plan.pdf", "bob");
  show(files, acme, "plan.pdf", "eve");   // exists, and is not hers
  show(files, acme, "guess.pdf", "eve");  // the gate alone answers
  show(files, acme, "old.pdf", "ada");    // passes the gate, has no metadata
  show(files, rival, "plan.pdf", "ada");  // another tenant's ids
}
