#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# manual.sh SEENBY TEMPLATE: the manual page, whose commands and options are those that `seenby --help` tells.
set -euo pipefail
seenby=$1 template=$2

commands() { "$seenby" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'; }

# roff escapes of a line of text.
escaped() { sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'; }

# One command's help as a subsection: an option's name and its text are two spaces apart or on two lines.
section() {
  echo ".SS $1"
  "$seenby" "$1" --help | escaped | awk '
    /^(Positionals|Options|Usage).*:/ {part = $1; next}
    /^Examples?:/ {print ".PP\nExamples:\n.EX"; part = "Examples:"; next}
    part == "Examples:" {print; next}
    /^ +\\-h,\\-\\-help/ || /^$/ {next}
    /^  [^ ]/ && match(substr($0, 3), /  +/) {
      print ".TP\n.B " substr($0, 3, RSTART - 1); print substr($0, 2 + RSTART + RLENGTH); next}
    /^  [^ ]/ {print ".TP\n.B " substr($0, 3); next}
    /^   / {sub(/^ +/, ""); print; next}
    part == "Options:" {print ".PP"; part = "Prose:"}
    {print}
    END {if (part == "Examples:") print ".EE"}'
}

version=$("$seenby" --version)
while IFS= read -r line; do
  case $line in
    @COMMANDS@) for command in $(commands); do section "$command"; done ;;
    *) printf '%s\n' "${line//@VERSION@/${version#seenby }}" ;;
  esac
done <"$template"
