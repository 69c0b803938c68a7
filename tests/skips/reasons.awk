# SPDX-License-Identifier: MIT
# The reasons that skipped tests gave in ctest's LastTest.log, a line each: Catch2 wraps a long one, a script (exit code
# 77) says it in one line.
function tell(reason) {sub(/^SKIPPED: /, "", reason); print reason}
/: SKIPPED:$/ {inside = 1; text = ""; next}
inside && (/^===/ || /^$/) {if (text != "") {tell(text); inside = 0}; next}
inside && !/^explicitly with message:$/ {sub(/^ +/, ""); text = text == "" ? $0 : text " " $0}
!inside && /^SKIPPED: / {tell($0)}
