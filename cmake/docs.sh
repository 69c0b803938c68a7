#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# docs.sh OUTPUT: Doxygen's pages in OUTPUT/html. Fails when a public member has no docstring.
set -euo pipefail
mkdir -p "$1"
SEENBY_DOCS_OUTPUT=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
SEENBY_VERSION=$(sed -n 's/.*SEENBY_VERSION "\(.*\)"/\1/p' include/seenby/version.hpp)
export SEENBY_DOCS_OUTPUT SEENBY_VERSION
# Doxygen 1.9.4 ends with 0 whatever it warned of.
warnings=$(doxygen cmake/Doxyfile 2>&1 | tee /dev/stderr)
[ -z "$warnings" ]
