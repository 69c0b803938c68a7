#pragma once
// SPDX-License-Identifier: MIT
// Which kernel answers batch checks, and how to choose another.

#include <string>
#include <string_view>
#include <vector>

#include "seenby/kernels/table.hpp"
#include "seenby/result.hpp"

namespace seenby {

/// The kernel that serves batch checks: "scalar", "portable", "sse2", "ssse3", "avx2" or "avx512". The best that this
/// machine runs, unless the environment variable SEENBY_KERNEL names another before the first check, or `use_kernel`
/// does at any time. A name in SEENBY_KERNEL that is not among `available_kernels()` is ignored without a word, and the
/// best serves: compare this name with it where it matters. All give the same answers. Builds under ThreadSanitizer or
/// with SEENBY_DISABLE_SIMD have the scalar kernel only.
[[nodiscard]] inline std::string_view active_kernel_name() noexcept { return detail::kernel().name; }

/// The kernels this build has and this machine runs, the slowest first.
[[nodiscard]] inline std::vector<std::string_view> available_kernels() {
  std::vector<std::string_view> names;
  for (const auto& kernel : detail::compiled_kernels()) {
    if (kernel.runs_here()) names.push_back(kernel.name);
  }
  return names;
}

/// Makes another kernel serve from now on: for tests, and for benchmarks that compare them. Callable from any thread;
/// checks under way end with the kernel they began with. Returns `unavailable` for a name that is not among
/// `available_kernels()`.
inline Result<void> use_kernel(std::string_view name) {
  const std::size_t index = detail::find_kernel(name);
  if (index == detail::no_kernel) {
    std::string message = "seenby: expected a kernel that this build has and this machine runs (";
    for (const std::string_view available : available_kernels()) message.append(available).append(" ");
    message.back() = ')';
    return Error{ErrorCode::unavailable, message.append(", got \"").append(name).append("\"")};
  }
  detail::chosen_kernel.store(index, std::memory_order_relaxed);
  return {};
}

}  // namespace seenby
