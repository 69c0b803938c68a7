#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Starts the web feed on http://127.0.0.1:8080/. Installs the packages it needs (apt-get), builds under build/web.
#   examples/feed.sh [--port N] [--data FOLDER] [--posts N]     --data is kept: build/feed-data unless given
#   examples/feed.sh --redis [URL] --postgres [ADDRESS] [...]   events in a stream of Redis, impressions in PostgreSQL,
#                                 filters in Redis; without URL or ADDRESS it starts servers of its own and ends them
#   examples/feed.sh quiz [--port N] [--questions N]            the quiz for two windows, on port 8081
# Its figures for Prometheus are at /metrics; examples/web/monitoring has alert rules and a Grafana dashboard.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

program=feed redis='' postgres='' options=()
if [ "${1:-}" = quiz ]; then
  program=quiz
  shift
fi
while [ $# -gt 0 ]; do
  case $1 in
    --redis | --postgres)
      program=feed_pipeline
      given=own
      if [ -n "${2:-}" ] && [ "${2#--}" = "$2" ]; then given=$2; fi
      if [ "$1" = --redis ]; then redis=$given; else postgres=$given; fi
      [ "$given" = own ] || shift
      ;;
    *) options+=("$1") ;;
  esac
  shift
done
if [ "$program" = feed_pipeline ] && { [ -z "$redis" ] || [ -z "$postgres" ]; }; then
  echo "expected --redis and --postgres together, got one of them" >&2
  exit 2
fi

packages=(g++ cmake ninja-build pkg-config libxxhash-dev nlohmann-json3-dev libcpp-httplib-dev libssl-dev)
case $program in
  feed) packages+=(liblmdb-dev libsqlite3-dev) ;;
  feed_pipeline)
    packages+=(libhiredis-dev libpq-dev)
    [ "$redis" != own ] || packages+=(redis-server)
    [ "$postgres" != own ] || packages+=(postgresql)
    ;;
esac
need "${packages[@]}"

mkdir -p build
if ! { cmake --preset release -DSEENBY_BUILD_TESTS=OFF -DSEENBY_BUILD_TOOL=OFF -B build/web &&
  cmake --build build/web --target "example_web_$program"; } >build/web.log 2>&1; then
  grep -E -A 12 '(error|FAILED|CMake Error)' build/web.log | head -n 60 || tail -n 40 build/web.log
  echo "the build failed; all of the log is in build/web.log" >&2
  exit 1
fi
case $program in
  quiz) exec build/web/bin/example_web_quiz ${options[@]+"${options[@]}"} ;;
  feed) exec build/web/bin/example_web_feed --data build/feed-data ${options[@]+"${options[@]}"} ;;
esac

# Servers of its own, on Unix sockets in a folder that is kept, so that what was seen is there the next time.
folder=/var/tmp/seenby-feed-$(id -u)
mkdir -p "$folder"
pids=()
end_servers() {
  for pid in ${pids[@]+"${pids[@]}"}; do kill -INT "$pid" 2>/dev/null || true; done
  wait
}
trap end_servers EXIT
wait_for() { # wait_for COMMAND...: until it succeeds, for ten seconds
  for _ in $(seq 100); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  echo "$1 does not answer; its log is in $folder" >&2
  return 1
}
if [ "$redis" = own ]; then
  redis-server --port 0 --unixsocket "$folder/redis.sock" --dir "$folder" --appendonly yes >"$folder/redis.log" 2>&1 &
  pids+=($!)
  wait_for redis-cli -s "$folder/redis.sock" ping
  redis=unix://$folder/redis.sock
fi
if [ "$postgres" = own ]; then
  bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
  as_owner=()
  if [ "$(id -u)" -eq 0 ]; then # PostgreSQL refuses to run as root
    mkdir -p "$folder/postgres" && chown postgres "$folder/postgres"
    as_owner=(setpriv --reuid postgres --regid postgres --init-groups)
  fi
  if [ ! -e "$folder/postgres/data" ]; then
    "${as_owner[@]}" "$bin/initdb" -D "$folder/postgres/data" -A trust -U seenby -E UTF8 >"$folder/postgres.log"
  fi
  "${as_owner[@]}" "$bin/postgres" -D "$folder/postgres/data" -k "$folder/postgres" -h '' >>"$folder/postgres.log" 2>&1 &
  pids+=($!)
  wait_for "$bin/pg_isready" -h "$folder/postgres"
  postgres="host=$folder/postgres user=seenby dbname=postgres"
fi
build/web/bin/example_web_feed_pipeline --data build/feed-data --redis "$redis" --postgres "$postgres" \
  ${options[@]+"${options[@]}"} &
feed=$!
trap 'kill "$feed" 2>/dev/null || true' INT TERM
while kill -0 "$feed" 2>/dev/null; do wait "$feed" || true; done
