#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compare.sh PROGRAM EXPECTED: the program succeeds and prints exactly what the file holds.
set -euo pipefail
actual=$(mktemp)
trap 'rm -f "$actual"' EXIT
"$1" >"$actual"
diff -u "$2" "$actual"
