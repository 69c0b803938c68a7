// SPDX-License-Identifier: MIT
// The two units hold the same items: they must answer alike, whichever instructions each was built for.

#include <cstdio>

#include "unit.hpp"

int main() {
  const int plain = plain_unit();
  const int avx2 = __builtin_cpu_supports("avx2") != 0 ? avx2_unit() : plain;
  std::printf("plain %d, avx2 %d of 10000 absent items\n", plain, avx2);
  return plain >= 0 && plain == avx2 ? 0 : 1;
}
