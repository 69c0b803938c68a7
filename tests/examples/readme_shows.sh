#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# readme_shows.sh README EXAMPLE: one of the README's ```cpp blocks is the example, line for line, from its first line
# that is no comment.
set -euo pipefail
readme=$(<"$1")
code=$(sed '/^[^/]/,$!d' "$2")
if [[ $readme != *$'```cpp\n'"$code"$'\n```'* ]]; then
  printf 'no C++ block of %s equals %s:\n%s\n' "$1" "$2" "$code"
  exit 1
fi
