#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# readme_compiles.sh PAGE INCLUDE_FOLDER CXX: every ```cpp block of the page compiles as a file of its own, and one that
# a block without a language follows is a program that prints what that block shows.
set -euo pipefail
readme=$1 include=$2 cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v work="$work" '
  !inside && /^```cpp$/ { file = work "/" ++blocks ".cpp"; inside = code = 1; next }
  !inside && /^```$/ { file = code ? work "/" blocks ".expected" : ""; inside = 1; code = 0; next }
  !inside && /^```/ { file = ""; inside = 1; code = 0; next }
  /^```$/ { inside = 0; file = ""; next }
  file != "" { print > file }' "$readme"

count=0
for block in "$work"/*.cpp; do
  [ -e "$block" ] || break
  count=$((count + 1))
  if [ -e "${block%.cpp}.expected" ]; then
    "$cxx" -std=c++20 -Wall -Wextra "-I$include" "$block" -o "$work/program"
    "$work/program" | diff "${block%.cpp}.expected" - ||
      { echo "program $(basename "$block" .cpp) of $readme does not print what is shown" && exit 1; }
    continue
  fi
  # What a block leaves out for brevity: the headers of the standard types that it names.
  printf '#include <cstdint>\n#include <string>\n#include <vector>\n#line 1 "%s, block %s"\n' \
    "$readme" "$(basename "$block" .cpp)" | cat - "$block" >"$work/unit.cpp"
  "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra "-I$include" "$work/unit.cpp"
done
[ "$count" -ge 1 ] || { echo "expected C++ blocks in $readme, found none" && exit 1; }
