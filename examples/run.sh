#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the seenby command and the examples, replays an event log through the filters and selects for two users.
# Installs the packages it needs (apt-get), builds under build/release, and is done in seconds when nothing changed.
#   examples/run.sh             a log that seenby makes up, with the skew of a real one
#   examples/run.sh EVENTS...   that, and your own logs: TSV or CSV of user, item, time
set -euo pipefail
logs=()
for log in "$@"; do
  if [ ! -r "$log" ]; then
    echo "examples/run.sh: $log: expected a readable file" >&2
    exit 2
  fi
  logs+=("$(realpath -- "$log")")
done
cd "$(dirname "$0")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
need g++ cmake ninja-build libxxhash-dev libcli11-dev nlohmann-json3-dev libssl-dev

step() { printf '\n== %s\n' "$*"; }

step "building build/release/bin/seenby and the examples"
mkdir -p build
if ! { cmake --preset release -DSEENBY_BUILD_TESTS=OFF &&
  cmake --build --preset release --target seenby_tool --target examples; } >build/examples.log 2>&1; then
  grep -E -A 12 '(error|FAILED|CMake Error)' build/examples.log | head -n 60 || tail -n 40 build/examples.log
  echo "the build failed; all of the log is in build/examples.log" >&2
  exit 1
fi
seenby=build/release/bin/seenby

work=build/examples
mkdir -p "$work"
step "making up a log: seenby generate > $work/events.tsv"
"$seenby" generate >"$work/events.tsv"
for log in "$work/events.tsv" ${logs[@]+"${logs[@]}"}; do
  step "replaying: seenby replay $log"
  "$seenby" replay "$log"
done

# Candidates by popularity, and the two users who have seen most.
count_column() { cut -f "$1" "$work/events.tsv" | sort | uniq -c | sort -k1,1nr -k2,2n | awk -v n="$2" 'NR <= n { print $2 }'; }
count_column 2 100 >"$work/candidates.txt"
mapfile -t users < <(count_column 1 2)
select=("$seenby" select --history "$work/events.tsv" --candidates "$work/candidates.txt"
  --user "${users[0]}" --user "${users[1]}" --limit 10)
step "selecting what neither user has seen: ${select[*]}"
"${select[@]}"

step "small programs to start from, built from examples/*.cpp"
printf '%s\n' build/release/bin/example_*
