#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compare_with_bloom_peer.sh PROGRAM EXPECTED PEER: the program's RedisBloom mode succeeds on a peer that plays the
# module, whose filters never err, and prints exactly what the file holds.
set -euo pipefail
program=$1 expected=$2
coproc peer { exec "$3"; }
read -r url <&"${peer[0]}"
end_peer() { eval "exec ${peer[1]}>&-" && wait; }
trap end_peer EXIT
diff -u "$expected" <("$program" "$url" bloom)
