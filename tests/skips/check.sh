#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The reasons of skipped tests are read from ctest's log, a Catch2 test's as well as a script's.
set -euo pipefail
diff <(awk -f "$(dirname "$0")/reasons.awk" <<'LOG'
697/1130 Testing: redis/a long reason
/src/tests/integration/redis_bloom.cpp:100: SKIPPED:
explicitly with message:
  SKIPPED: set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so, which no
  distribution packages

===============================================================================
698/1130 Testing: path/a reason of one line
/src/tests/integration/whole_path/stream.cpp:76: SKIPPED:
explicitly with message:
  redis-server is not installed

===============================================================================
699/1130 Testing: gdb/printers
Output:
----------------------------------------------------------
SKIPPED: gdb is not installed
<end of output>
700/1130 Testing: package/add_subdirectory
-- seenby::lmdb SKIPPED: its dependencies are not installed
LOG
) - <<'REASONS'
set SEENBY_REDISBLOOM_MODULE to the path of redisbloom.so, which no distribution packages
redis-server is not installed
gdb is not installed
REASONS
