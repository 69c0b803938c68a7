#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# readme_compiles.sh README INCLUDE_FOLDER CXX: every ```cpp block of the README compiles as a file of its own, and the
# first one prints what the block behind it shows.
set -euo pipefail
readme=$1 include=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v work="$work" '
  /^```cpp$/ { file = work "/" ++blocks ".cpp"; next }
  /^```$/ && file == "" && blocks == 1 && !shown { file = work "/expected"; shown = 1; next }
  /^```/ { file = ""; next }
  file != "" { print > file }' "$readme"

count=0
for block in "$work"/*.cpp; do
  # What a block leaves out for brevity: the headers of the standard types that it names.
  printf '#include <cstdint>\n#include <string>\n#include <vector>\n#line 1 "%s, block %s"\n' \
    "$readme" "$(basename "$block" .cpp)" | cat - "$block" >"$work/unit.cpp"
  "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra "-I$include" "$work/unit.cpp"
  count=$((count + 1))
done
[ "$count" -ge 3 ] || { echo "expected at least three C++ blocks in $readme, found $count"; exit 1; }

"$cxx" -std=c++20 "-I$include" "$work/1.cpp" -o "$work/first"
"$work/first" | diff "$work/expected" - || { echo "the first program of $readme does not print what is shown"; exit 1; }
