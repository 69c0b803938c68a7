// SPDX-License-Identifier: MIT
// A store without any member: SeenFilter says each that is missing, in a line of its own.
#include "seenby/select/seen_filter.hpp"

struct Store {};

int main() { const seenby::SeenFilter filter{Store{}}; }
