#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds seenby and runs every test. Installs the packages it needs (apt-get), builds under build/, and is done in
# seconds when nothing changed.
#   tests/run.sh              the release build: what a user gets
#   tests/run.sh PRESET...    other presets of CMakePresets.json: dev, release, clang, asan-ubsan, tsan, bench
# The last line is "N passed, N failed" over all of them. Under CI=true a test that skips itself for want of a server
# has failed, but for RedisBloom, which no distribution packages.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
[ $# -gt 0 ] || set -- release

packages=(
  g++ cmake ninja-build ccache pkg-config git gdb groff-base zsh python3 dpkg-dev file
  libxxhash-dev 'catch2>=3'
  libcli11-dev nlohmann-json3-dev libcpp-httplib-dev chromium chromium-driver
  libhiredis-dev redis-server valkey-server openssl lua5.1
  libssl-dev liblmdb-dev libicu-dev libsqlite3-dev libpq-dev postgresql
  prometheus-cpp-dev prometheus redis-sentinel libasio-dev
)
for preset in "$@"; do
  case $preset in
    clang* | asan-ubsan* | tsan*) packages+=(clang libclang-rt-dev) ;;
    bench) packages+=(libbenchmark-dev libboost-dev libbloom-dev libroaring-dev) ;;
  esac
done
need "${packages[@]}"

passed=0 failed=0 skipped=0

build() {
  local preset=$1 log=build/$1.log
  if { cmake --preset "$preset" && cmake --build --preset "$preset"; } >"$log" 2>&1; then
    grep -F SKIPPED "$log" || true
    return 0
  fi
  grep -E -A 12 '(error|FAILED|CMake Error)' "$log" | head -n 60 || tail -n 40 "$log"
  echo "$preset does not build; all of the log is in $log"
  return 1
}

# What the umbrella header costs each file that includes it, in seconds of processor time: told, not judged.
umbrella_seconds() {
  local compiler TIMEFORMAT='%U %S'
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "build/$1/CMakeCache.txt")
  for _ in 1 2 3; do
    { time "$compiler" -std=c++20 -Iinclude -fsyntax-only -x c++ - <<<'#include "seenby/seenby.hpp"'; } 2>&1
  done | awk '{print $1 + $2}' | sort -n | sed -n 2p
}

# ThreadSanitizer's runtime does not know every address space layout; without randomisation it knows ours.
run_ctest() {
  local wrapper=()
  if [[ $1 = tsan* ]] && setarch -R true 2>/dev/null; then wrapper=(setarch -R); fi
  "${wrapper[@]}" ctest --preset "$1" --no-label-summary --parallel "$(nproc)"
}

# What a test may skip for in CI: what no distribution packages, and what is asked for by hand.
excused="SEENBY_REDISBLOOM_MODULE|hiredis_ssl|this build has TLS|SEENBY_SOAK|the real log is not here|a sanitizer's"

# Adds ctest's own summary of a log to the counts.
count() {
  local log=$1 reasons=$2 total bad skips unexcused=0
  read -r bad total < <(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log" | tail -n 1) ||
    { failed=$((failed + 1)) && return; }
  skips=$(grep -c '\*\*\*Skipped' "$log" || true)
  if [ "${CI:-}" = true ]; then unexcused=$(grep -cvE "$excused" "$reasons" || true); fi
  passed=$((passed + total - bad - skips))
  failed=$((failed + bad + unexcused))
  skipped=$((skipped + skips - unexcused))
}

mkdir -p build
for preset in "$@"; do
  SECONDS=0
  echo "== $preset: building"
  if ! build "$preset"; then
    failed=$((failed + 1))
    continue
  fi
  echo "== $preset: built in $SECONDS s (the umbrella header alone compiles in $(umbrella_seconds "$preset") s), testing"
  SECONDS=0
  log=build/$preset.tests.log
  run_ctest "$preset" >"$log" 2>&1 || true
  # What passed needs no line; what failed or skipped is shown with its output.
  grep -vE '^ +Start +[0-9]+:|   Passed +[0-9.]+ sec$' "$log" || true
  awk -f tests/skips/reasons.awk "build/$preset/Testing/Temporary/LastTest.log" >"build/$preset.skips"
  sort "build/$preset.skips" | uniq -c | sed 's/^ *\([0-9]*\) /SKIPPED \1: /'
  count "$log" "build/$preset.skips"
  echo "== $preset: tested in $SECONDS s"
done
[ "$skipped" -eq 0 ] || echo "$skipped skipped (each says why above)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
