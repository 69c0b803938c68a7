#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Cycles a check on an ARM server core (Neoverse V1), ours and Boost.Bloom's, as llvm-mca computes them from the loops'
# instructions: no such machine is needed, and caches and branches are left out.
#
#   bench/neon/cycles.sh            # a table; needs Boost 1.89 or later, see bench/peers/get_boost.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
need g++-aarch64-linux-gnu llvm-19 libxxhash-dev
bench/peers/get_boost.sh >&2

asm=$(mktemp --suffix=.s)
trap 'rm -f "$asm"' EXIT
aarch64-linux-gnu-g++ -std=c++20 -O2 -mcpu=neoverse-v1 -Iinclude -isystem bench/peers/.deps/boost/include -S \
  bench/neon/loops.cpp -o "$asm"
printf '%-28s %s\n' loop 'cycles a check'
llvm-mca-19 -mtriple=aarch64 -mcpu=neoverse-v1 -iterations=1000 "$asm" |
  awk '/^\[[0-9]+\] Code Region - / { name = $5; checks = $6 }
       /^Total Cycles:/ { printf "%-28s %.2f\n", name, $3 / 1000 / checks }'
