#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check.sh CXX XXHASH_FLAGS...: gdb shows seenby's types as cmake/gdb/seenby.py promises.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v gdb >/dev/null || { echo "SKIPPED: gdb is not installed" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" -std=c++20 -g -O0 -Iinclude "${@:2}" tests/gdb/program.cpp -o "$work/program"

names=(digest filter known away found failed finished time facade pool page)
commands=()
for name in "${names[@]}"; do commands+=(-ex "print $name"); done
gdb -nx -batch -iex "set auto-load off" -ex "source cmake/gdb/seenby.py" -ex "break look_here" -ex run -ex up \
  "${commands[@]}" "$work/program" >"$work/out" 2>&1 || { cat "$work/out" && exit 1; }
grep -q '^Breakpoint 1, ' "$work/out" || { cat "$work/out" && echo "SKIPPED: gdb may not trace here" && exit 77; }
sed -n 's/^\$[0-9]* = //p' "$work/out" | diff - <(cat <<'END'
0x0000000000000012
BloomFilter: 500 items, classic, m = 9600 bits, k = 7, fill 30.7%
known
unreachable: timed_out: no answer
value 42
error io: disk full
success
2023-11-14T22:13:20Z
SeenFilter over seenby::MemoryStore<unsigned long, seenby::Xxh3Hash>
CandidatePool: 4 candidates
Selection: 2 picks (thin) of 3 checked, 1 removed, 1 duplicates
END
)
