#pragma once
// SPDX-License-Identifier: MIT
// The bytes of a memory store's snapshot: header, sections and trailer, each with its checksum.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seenby/detail/atomic_ref.hpp"
#include "seenby/detail/bits.hpp"
#include "seenby/detail/mapping.hpp"
#include "seenby/hash.hpp"
#include "seenby/result.hpp"

SEENBY_DETAIL_BEGIN

// tests/golden/FORMAT-SNAPSHOT.md describes the format; a file once written stays readable for ever.

inline constexpr std::uint64_t snapshot_magic = 0x534d79626e656573U;    // "seenbyMS"
inline constexpr std::uint64_t snapshot_section = 0x43455379626e6573U;  // "senbySEC"
inline constexpr std::uint64_t snapshot_end = 0x444e4579626e6573U;      // "senbyEND"
inline constexpr std::uint16_t snapshot_version = 3;                    // 1 has no tables, 2 no segments; all are read
inline constexpr std::size_t snapshot_header_bytes = 64;
inline constexpr std::size_t snapshot_section_bytes = 32;  // before the records
inline constexpr std::size_t snapshot_trailer_bytes = 32;

/// Appends little-endian fields.
class ByteWriter {
 public:
  template <class Field>
  void put(Field value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    store_le(bytes_.data() + at, value);
  }
  void put_words(const std::uint64_t* words, std::size_t count) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + count * sizeof(std::uint64_t));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t word =
          AtomicRef<std::uint64_t>(*const_cast<std::uint64_t*>(words + i)).load(std::memory_order_relaxed);
      std::memcpy(bytes_.data() + at + i * sizeof word, &word, sizeof word);
    }
  }
  void put_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  /// Closes a run of fields with the XXH3 of everything since `from`.
  void put_checksum(std::size_t from) { put(xxh3_bytes(bytes_.data() + from, bytes_.size() - from, 0)); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  void clear() noexcept { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
};

/// Takes little-endian fields from bytes; past their end it gives zeros and says so.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  template <class Field>
  [[nodiscard]] Field take() noexcept {
    const auto field = take_bytes(sizeof(Field));
    return field.empty() ? Field{} : load_le<Field>(field.data());
  }
  [[nodiscard]] std::span<const std::byte> take_bytes(std::uint64_t count) noexcept {
    if (count > bytes_.size()) {
      overrun_ = true;
      bytes_ = {};
      return {};
    }
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(static_cast<std::size_t>(count));
    return taken;
  }
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return bytes_; }
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  bool overrun_ = false;
};

/// Whose digests and users a snapshot holds, and in which window: what must be equal for its bits to mean the same.
struct SnapshotIdentity {
  HashKind hash = HashKind::xxh3_64;
  std::uint8_t key_words = 1;
  std::uint16_t seed_check = 0;
  std::uint16_t slices = 0;  ///< 0: no window
  std::uint64_t slice_seconds = 0;
  friend bool operator==(const SnapshotIdentity&, const SnapshotIdentity&) = default;
};

[[nodiscard]] inline Error snapshot_error(ErrorCode code, const std::string& path, const std::string& what) {
  std::string message = "seenby: snapshot ";
  return {code, message.append(path).append(": ").append(what)};
}

inline void put_header(ByteWriter& out, const SnapshotIdentity& identity, std::uint32_t newest_slice,
                       std::uint16_t version) {
  out.put(snapshot_magic);
  out.put(version);
  out.put(static_cast<std::uint8_t>(identity.hash));
  out.put(identity.key_words);
  out.put(identity.seed_check);
  out.put(identity.slices);
  out.put(identity.slice_seconds);
  out.put(newest_slice);
  for (int i = 0; i < 7; ++i) out.put(std::uint32_t{0});
  out.put_checksum(0);
}

/// Files have this version unless they hold what it has no part for, so that earlier readers read them.
inline constexpr std::uint16_t snapshot_usual_version = 2;

/// The newest slice the snapshot's store had seen. Errors: bad_magic, unsupported_version, corrupt, parameter_mismatch.
[[nodiscard]] inline Result<std::uint32_t> take_header(std::span<const std::byte> bytes,
                                                       const SnapshotIdentity& expected, const std::string& path) {
  ByteReader in(bytes);
  if (in.take<std::uint64_t>() != snapshot_magic) {
    return snapshot_error(ErrorCode::bad_magic, path, "expected a file that begins with \"seenbyMS\"");
  }
  const auto version = in.take<std::uint16_t>();
  if (version < 1 || version > snapshot_version) {
    std::string what = "expected version 1 to 3, got ";
    return snapshot_error(ErrorCode::unsupported_version, path, what.append(std::to_string(version)));
  }
  const std::size_t checked = bytes.size() - sizeof(std::uint64_t);
  if (load_le<std::uint64_t>(bytes.data() + checked) != xxh3_bytes(bytes.data(), checked, 0)) {
    return snapshot_error(ErrorCode::corrupt, path, "the header contradicts its checksum");
  }
  SnapshotIdentity found;
  found.hash = static_cast<HashKind>(in.take<std::uint8_t>());
  found.key_words = in.take<std::uint8_t>();
  found.seed_check = in.take<std::uint16_t>();
  found.slices = in.take<std::uint16_t>();
  found.slice_seconds = in.take<std::uint64_t>();
  if (found != expected) {
    return snapshot_error(ErrorCode::parameter_mismatch, path,
                          "written under another hash, seed, kind of user or window than this store's");
  }
  return in.take<std::uint32_t>();
}

/// A snapshot file being read: knows how much is left, so that no length in it is believed beyond that.
class SnapshotFile {
 public:
  [[nodiscard]] static Result<SnapshotFile> open(const std::string& path) {
    FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) return system_error("open", path);
    if (!S_ISREG(status.st_mode)) return snapshot_error(ErrorCode::io, path, "expected a regular file");
    return SnapshotFile(std::move(file), path, static_cast<std::uint64_t>(status.st_size));
  }
  [[nodiscard]] std::uint64_t remaining() const noexcept { return remaining_; }

  /// The next `size` bytes, into a buffer of the caller's. Errors: truncated, io.
  Result<void> read(std::vector<std::byte>& into, std::uint64_t size) {
    if (size > remaining_) {
      std::string what = "expected ";
      what.append(std::to_string(size)).append(" more bytes, got ").append(std::to_string(remaining_));
      return snapshot_error(ErrorCode::truncated, path_, what);
    }
    into.resize(static_cast<std::size_t>(size));
    for (std::size_t at = 0; at < into.size();) {
      const ssize_t got = ::read(file_.get(), into.data() + at, into.size() - at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("read", path_);
      if (got == 0) return snapshot_error(ErrorCode::truncated, path_, "the file became shorter while it was read");
      at += static_cast<std::size_t>(got);
    }
    remaining_ -= size;
    return {};
  }

 private:
  SnapshotFile(FileHandle file, std::string path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), remaining_(size) {}
  FileHandle file_;
  std::string path_;
  std::uint64_t remaining_;
};

/// Behind what is written, or over what is there from `at` on.
inline Result<void> write_all(const FileHandle& file, std::span<const std::byte> bytes, const std::string& path,
                              std::optional<off_t> at = std::nullopt) {
  while (!bytes.empty()) {
    const ssize_t written =
        at ? ::pwrite(file.get(), bytes.data(), bytes.size(), *at) : ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    if (at) *at += written;
  }
  return {};
}

SEENBY_DETAIL_END
