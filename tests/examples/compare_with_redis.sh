#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compare_with_redis.sh PROGRAM EXPECTED [bloom]: the program succeeds on a Redis of its own and prints what the file
# holds. With `bloom` the server has the module that SEENBY_REDISBLOOM_MODULE names, whose false positives are its own:
# figures are not compared. Skipped (77) without a server or the module.
set -euo pipefail
arguments=(--port 0 --save '' --daemonize no)
if [ "${3:-}" = bloom ]; then
  [ -n "${SEENBY_REDISBLOOM_MODULE:-}" ] || { echo "SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so (2.8)" && exit 77; }
  arguments+=(--loadmodule "$SEENBY_REDISBLOOM_MODULE")
fi
command -v redis-server >/dev/null || { echo "SKIPPED: redis-server is not installed" && exit 77; }
work=$(mktemp -d)
redis-server "${arguments[@]}" --dir "$work" --unixsocket "$work/socket" >"$work/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 200); do
  [ -S "$work/socket" ] && break
  sleep 0.05
done

show() { if [ "${3:-}" = bloom ]; then sed -E 's/[0-9][0-9,]*/N/g' "$1"; else cat "$1"; fi; }
"$1" "unix://$work/socket" ${3:+"$3"} >"$work/actual"
diff -u <(show "$2" "" "${3:-}") <(show "$work/actual" "" "${3:-}")
