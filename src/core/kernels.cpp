// SPDX-License-Identifier: MIT
// The kernels' code, for units built with SEENBY_COMPILED.

#include <span>

#include "seenby/kernels/every_kernel.hpp"

namespace seenby::detail {

extern const std::span<const Kernel> library_kernels;
constinit const std::span<const Kernel> library_kernels{every_kernel};

}  // namespace seenby::detail
