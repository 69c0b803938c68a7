// SPDX-License-Identifier: MIT
// The kernels' code, for units built with SEENBY_COMPILED.

#include <cstddef>

#include "seenby/kernels/every_kernel.hpp"

namespace seenby::detail {

extern const Kernel* const library_kernels;
extern const std::size_t library_kernel_count;
constinit const Kernel* const library_kernels = every_kernel;
constinit const std::size_t library_kernel_count = sizeof(every_kernel) / sizeof(Kernel);

}  // namespace seenby::detail
