#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Starts the web feed on http://127.0.0.1:8080/. Installs the packages it needs (apt-get), builds under build/release.
#   examples/feed.sh [--port N] [--data FOLDER] [--posts N]     --data is kept: build/feed-data unless given
#   examples/feed.sh quiz [--port N] [--questions N]            the quiz for two windows, on port 8081
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh
need g++ cmake ninja-build pkg-config libxxhash-dev nlohmann-json3-dev libcpp-httplib-dev libssl-dev liblmdb-dev libsqlite3-dev

program=feed
if [ "${1:-}" = quiz ]; then
  program=quiz
  shift
fi
mkdir -p build
if ! { cmake --preset release -DSEENBY_BUILD_TESTS=OFF -DSEENBY_BUILD_TOOL=OFF -B build/web &&
  cmake --build build/web --target "example_web_$program"; } >build/web.log 2>&1; then
  grep -E -A 12 '(error|FAILED|CMake Error)' build/web.log | head -n 60 || tail -n 40 build/web.log
  echo "the build failed; all of the log is in build/web.log" >&2
  exit 1
fi
[ "$program" = quiz ] && exec build/web/bin/example_web_quiz "$@"
exec build/web/bin/example_web_feed --data build/feed-data "$@"
