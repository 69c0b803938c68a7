#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Counts the instructions of the hot paths under callgrind and compares them with the committed baseline.
#
#   bench/guard/check.sh             # fails when a path takes over 5% more instructions than the baseline says
#   bench/guard/check.sh --refresh   # rewrites the baseline: after a change that is worth its instructions
#
# A count is the difference between a long and a short run, divided by the rounds between them: set-up cancels out, and
# what is left is exact and the same on every run. The kernel is AVX2 everywhere, since valgrind has no AVX-512. Counts
# belong to one compiler release; with another one the check says SKIPPED, or under CI=true fails, and --refresh makes a
# baseline for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
need g++ cmake ninja-build libxxhash-dev valgrind

compiler=$(${CXX:-g++} -dumpfullversion)
baseline=bench/guard/baseline-gcc-$compiler.txt
build=build/guard
mkdir -p "$build"
{ cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSEENBY_BUILD_GUARD=ON -DSEENBY_BUILD_TESTS=OFF \
    -DSEENBY_BUILD_EXAMPLES=OFF -DSEENBY_BUILD_TOOL=OFF &&
  cmake --build "$build" --target seenby_hot_paths; } > "$build/build.log" 2>&1 || { cat "$build/build.log"; exit 1; }
program=$build/bin/seenby_hot_paths

instructions() {  # PATH ROUNDS
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 |
    sed -n 's/.*Collected : \([0-9]*\)$/\1/p'
}
count() {  # PATH: instructions a round
  local short long
  short=$(instructions "$1" 320)
  long=$(instructions "$1" 1600)
  echo $(((long - short) / 1280))
}

if [[ ${1:-} == --refresh ]]; then
  "$program" --list | while read -r path; do echo "$path $(count "$path")"; done > "$baseline"
  echo "guard: wrote $baseline"
  cat "$baseline"
  exit 0
fi
if [[ ! -e $baseline ]]; then
  echo "guard: SKIPPED: no baseline for GCC $compiler; bench/guard/check.sh --refresh makes one"
  [[ ${CI:-} != true ]]
  exit
fi

failed=0
printf '%-22s %10s %10s\n' path baseline now
while read -r path expected; do
  now=$(count "$path")
  verdict=
  if ((now * 100 > expected * 105)); then verdict="over 5% more" failed=1; fi
  if ((now * 100 < expected * 95)); then verdict="less: refresh the baseline"; fi
  printf '%-22s %10d %10d  %s\n' "$path" "$expected" "$now" "$verdict"
done < "$baseline"
unlisted=$("$program" --list | grep -vxFf <(cut -d' ' -f1 "$baseline") || true)
[[ -z $unlisted ]] || { echo "guard: no baseline for: $unlisted"; failed=1; }
exit $failed
