#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Holds the rooms of include/seenby: a header includes its own room and the rooms on floors below, never upward and
# never a neighbour on its own floor, and no headers include each other in a circle.
#   check.sh INCLUDE_FOLDER     the folder that holds seenby/
# Prints a line for every include that breaks the rule, naming both files; exits 1 when there is one.
set -euo pipefail
cd "${1:?the include folder}"

# One floor a line, the ground first. A name ending in "/" is a room, any other a header beside the rooms.
floors='config.hpp result.hpp answer.hpp hash.hpp clock.hpp version.hpp
detail/
sizing.hpp latency_histogram.hpp kernels/ kernels.hpp
filters/ sets/ histories/ observer.hpp metric_page.hpp
stores/ gates/
select/ redis/ sqlite/ lmdb/ postgres/ token/ text/
ingest/ redis_article/ metrics.hpp
prometheus/ seenby.hpp'

grep -rHoE '^ *# *include "seenby/[^"]+"' --include='*.hpp' seenby |
  sed -E 's|^seenby/([^:]+):.*"seenby/([^"]+)"$|\1 \2|' |
  awk -v floors="$floors" '
    function room(header) { return header ~ /\// ? substr(header, 1, index(header, "/")) : header }
    BEGIN {
      count = split(floors, lines, "\n")
      for (floor = 1; floor <= count; ++floor) {
        rooms = split(lines[floor], names, " ")
        for (i = 1; i <= rooms; ++i) floor_of[names[i]] = floor
      }
    }
    function report(text) { print text; bad = 1 }
    {
      from = room($1); to = room($2)
      if (!(from in floor_of)) report("seenby/" $1 " stands in no room of the list in tests/layers/check.sh")
      if (!(to in floor_of)) report("seenby/" $2 ", included by seenby/" $1 ", stands in no room of the list")
      # kernels.hpp is the front door of kernels/, and ground headers may use each other.
      same = from == to || (floor_of[from] == 1 && floor_of[to] == 1) || (from == "kernels.hpp" && to == "kernels/")
      if (!same && floor_of[to] > floor_of[from]) report("seenby/" $1 " includes seenby/" $2 ", which is upward")
      if (!same && floor_of[to] == floor_of[from]) report("seenby/" $1 " includes seenby/" $2 ", a neighbour on its floor")
      includes[$1] = includes[$1] " " $2
    }
    # Depth first: a header met again while it is still open closes a circle.
    function visit(header, path,    list, i, n) {
      if (state[header] == 2) return
      if (state[header] == 1) { report("a circle of includes:" path " seenby/" header); return }
      state[header] = 1
      n = split(includes[header], list, " ")
      for (i = 1; i <= n; ++i) visit(list[i], path " seenby/" header)
      state[header] = 2
    }
    END {
      for (header in includes) visit(header, "")
      exit bad
    }'
