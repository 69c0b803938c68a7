#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures seenby beside its peers and draws what README.md shows.
#
#   bench/report/run.sh            # all of it, on a machine that does nothing else; takes 8 GB and twenty minutes
#   bench/report/run.sh --quick    # fewer repetitions, users and ids, for a look
#   bench/report/run.sh PART...    # these parts beside the last figures of the others: speed, kernels, memory,
#                                  # filter_size, store_size, users_10M, record_grown, threads, redis, neon, gate
#   bench/report/run.sh --plot     # draws the plots again from the last figures
#
# Figures go to bench/report/peers.json (every repetition, with the machine, the compiler and the commit), the table of
# medians to bench/report/table.md, the plots to bench/report/plots/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

report=bench/report quick='' plot_only='' parts_asked=()
for argument in "$@"; do
  case $argument in
    --quick) quick=1 ;;
    --plot) plot_only=1 ;;
    *) parts_asked+=("$argument") ;;
  esac
done
python=/usr/bin/python3  # the one that Debian's matplotlib belongs to, whatever comes before it in PATH
need python3-matplotlib

# The gate's figures, as its scenarios print them: against PostgreSQL and Redis, of many ids, and under kills.
measure_gate() {
  local lookups=1000000 ids=(10000000 100000000) soak=1
  if [ -n "$quick" ]; then lookups=20000 ids=(1000000) soak=''; fi
  need libhiredis-dev libssl-dev libpq-dev redis-server postgresql 'catch2>=3'
  cmake --preset bench > /dev/null
  cmake --build build/bench --target seenby_scenario_texts seenby_scenario_gate
  cmake --preset release > /dev/null
  cmake --build build/release --target seenby_redis_tests
  mkdir -p "$parts"
  echo "report: measuring the gate"
  build/bench/bin/seenby_scenario_texts $lookups > "$parts/gate_1_texts.txt"
  local count
  for count in "${ids[@]}"; do build/bench/bin/seenby_scenario_gate "$count"; done > "$parts/gate_2_ids.txt"
  # One line of the test says how much it did; it fails when an id was absent.
  ${soak:+env SEENBY_SOAK=1} build/release/bin/seenby_redis_tests \
    'An id added at one server is never absent at another while versions switch and builders die' > "$parts/rebuilds.log"
  grep ' switches, ' "$parts/rebuilds.log" |
    sed 's/^ */rebuilds of a shared gate under kills: /' > "$parts/gate_3_rebuilds.txt"
}

parts=build/bench/report
peers=build/bench/bin/seenby_bench_peers
commit=$(git rev-parse --short=12 HEAD)
git diff --quiet HEAD || commit+=" with changes"

asked() { [ -z "$plot_only" ] && { [ ${#parts_asked[@]} -eq 0 ] || [[ " ${parts_asked[*]} " == *" $1 "* ]]; }; }
measure() {  # PROGRAM PART OPTION...
  echo "report: measuring $2"
  "$1" "${@:3}" --benchmark_context="commit=$commit" --benchmark_out="$parts/$2.json" > "$parts/$2.log"
}

if [ -z "$plot_only" ]; then
  need g++ cmake ninja-build libxxhash-dev libbenchmark-dev libboost-dev libbloom-dev libroaring-dev libhiredis-dev \
    libssl-dev redis-server
  bench/peers/get_boost.sh || echo "report: without Boost's contenders"
  cmake --preset bench -DSEENBY_BUILD_TOOL=OFF > /dev/null
  cmake --build build/bench --target seenby_bench_peers seenby_bench_micro seenby_bench_redis
  rm -rf "$parts"
  mkdir -p "$parts"
fi

repetitions=${quick:+5}
interleaved=(--benchmark_repetitions="${repetitions:-15}" --benchmark_enable_random_interleaving
             --benchmark_min_time=0.05)
# Repetitions of all contenders are interleaved: what else the machine does meets all of them alike.
if asked speed; then
  measure $peers speed --benchmark_filter='^(request_|hit_|single|insert_batch|lookup_10M|facade_)' "${interleaved[@]}"
fi
# Each lesser kernel beside the best peer; those this machine lacks are left out.
if asked kernels; then
  for kernel in avx2 ssse3 sse2 portable scalar; do
    SEENBY_KERNEL=$kernel measure $peers "kernel_$kernel" \
      --benchmark_filter='^request_(cold|hot)/(seenby|boost_multiblock)$' "${interleaved[@]}"
  done
fi
if asked memory; then measure $peers memory --benchmark_filter='^memory/'; fi
if asked filter_size; then
  measure $peers filter_size --benchmark_filter='^filter_size/' --benchmark_min_time=0.1 --benchmark_repetitions=3
fi
if asked store_size; then
  sizes='1000|10000|100000|1000000'
  if [ -n "$quick" ]; then sizes='1000|10000|100000'; fi
  measure $peers store_size --benchmark_filter="^store_size/.*/($sizes)$" \
    --benchmark_min_time=0.2 --benchmark_repetitions=3
fi
export SEENBY_BENCH_10M=1
if [ -z "$quick" ] && asked users_10M; then measure $peers users_10M --benchmark_filter='^users_10M/'; fi
if [ -z "$quick" ] && asked record_grown; then measure $peers record_grown --benchmark_filter='^record_grown/'; fi
if asked threads; then
  measure build/bench/bin/seenby_bench_micro threads --benchmark_filter='^threads/' --benchmark_repetitions=3 \
    --benchmark_enable_random_interleaving
fi
# Every contender with the callers of a busy service; RedisBloom's where SEENBY_REDISBLOOM_MODULE names the module.
if asked redis; then
  measure build/bench/bin/seenby_bench_redis redis --benchmark_repetitions=5 --benchmark_enable_random_interleaving \
    --benchmark_filter='/(seenby|seenby_history|get|article_per_bit|bf_mexists|bf_madd)$'
fi
if asked neon && [ -e bench/peers/.deps/boost/include ]; then bench/neon/cycles.sh > "$parts/neon_cycles.txt"; fi
if asked gate; then measure_gate; fi

if [ -z "$plot_only" ]; then
  if [ ${#parts_asked[@]} -eq 0 ]; then rm -f $report/peers.json; fi
  "$python" $report/collect.py "$parts" $report/peers.json
fi
"$python" $report/draw.py $report/peers.json $report/plots $report/table.md
cat $report/table.md
