#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds seenby and runs every test. Installs the packages it needs (apt-get), builds under build/, and is done in
# seconds when nothing changed.
#   tests/run.sh              the release build: what a user gets
#   tests/run.sh PRESET...    other presets of CMakePresets.json: dev, release, clang, asan-ubsan, tsan
#   tests/run.sh --packages   only install the packages
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

packages=(g++ cmake ninja-build ccache pkg-config libxxhash-dev libcli11-dev nlohmann-json3-dev libhiredis-dev libssl-dev
  'catch2>=3' redis-server valkey-server)
if [ "${1:-}" = --packages ]; then
  need "${packages[@]}"
  exit 0
fi
[ $# -gt 0 ] || set -- release

for preset in "$@"; do
  case $preset in clang | asan-ubsan | tsan) packages+=(clang libclang-rt-dev) ;; esac
done
need "${packages[@]}"

jobs=$(nproc)
failed=()
for preset in "$@"; do
  echo "== $preset: building" >&2
  log=build/$preset.log
  mkdir -p build
  if ! { cmake --preset "$preset" && cmake --build --preset "$preset" --parallel "$jobs"; } >"$log" 2>&1; then
    grep -E -A 12 '(error|FAILED|CMake Error)' "$log" | head -n 60 >&2 || tail -n 40 "$log" >&2
    echo "== $preset: the build failed, all of it is in $log" >&2
    failed+=("$preset")
    continue
  fi
  grep SKIPPED "$log" >&2 || true
  echo "== $preset: testing" >&2
  ctest --preset "$preset" --parallel "$jobs" || failed+=("$preset")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
