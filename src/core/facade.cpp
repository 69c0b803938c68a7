// SPDX-License-Identifier: MIT
// The facade's code for common types, for units built with SEENBY_COMPILED; kernels and stores are the other units'.

#define SEENBY_COMPILED
#define SEENBY_INSTANTIATE
#include "seenby/select/compiled.hpp"
