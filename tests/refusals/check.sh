#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What does not compile says why, in a line of its own for each thing that is missing.
#   check.sh COMPILER INCLUDE_FOLDER
# GCC names them all; Clang ends at the first, which must be ours.
set -euo pipefail
compiler=${1:?the compiler} include=${2:?the include folder}
cd "$(dirname "${BASH_SOURCE[0]}")"

expect() {  # FILE ERRORS
  local errors ours
  errors=$("$compiler" -std=c++20 -I"$include" -fsyntax-only "$1" 2>&1 | grep -E '(fatal )?error:' || true)
  if [[ $("$compiler" --version) == *clang* ]]; then errors=$(head -n 1 <<<"$errors"); set -- "$1" 1; fi
  ours=$(grep -c 'seenby: a .* needs' <<<"$errors" || true)
  [[ $ours -eq $2 && $(wc -l <<<"$errors") -eq $2 ]] && return
  printf '%s: expected %s lines that say what is missing, and nothing else, got:\n%s\n' "$1" "$2" "$errors"
  exit 1
}
expect bad_store.cpp 9
expect bad_history.cpp 6
