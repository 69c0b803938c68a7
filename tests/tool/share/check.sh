#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# check.sh SEENBY MANUAL: the manual page has every command and option that --help tells and formats without a warning;
# bash and zsh complete them.
set -euo pipefail
cd "$(dirname "$0")/../../.."
seenby=$1 manual=$2
fail() { echo "$*" && exit 1; }

mapfile -t commands < <("$seenby" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "${#commands[@]}" -ge 6 ] || fail "expected at least 6 commands in --help, got ${#commands[@]}"
options() { "$seenby" "$1" --help | grep -oE '^  (-h,)?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+' | sort; }

# The manual: a subsection a command, with its options and no others.
for command in "${commands[@]}"; do
  section=$(awk -v want=".SS $command" '$0 == want {on = 1; next} /^\.S[SH]/ {on = 0} on' "$manual" | sed 's/\\-/-/g')
  diff <(options "$command" | grep -vx -- --help) <(grep -oE '^\.B --[a-z0-9-]+' <<<"$section" | cut -c4- | sort) ||
    fail "the manual's options of $command are not those of --help"
done
if command -v groff >/dev/null; then
  warnings=$(groff -man -Tutf8 -ww -z "$manual" 2>&1)
  [ -z "$warnings" ] || fail "groff: $warnings"
fi

# complete WORD...: what bash offers for the last word.
# shellcheck source=src/tool/share/seenby.bash
source src/tool/share/seenby.bash
complete -p seenby | grep -q -- '-F _seenby' || fail "bash has no completion for seenby"
complete_bash() {
  COMP_WORDS=("$seenby" "$@") COMP_CWORD=$# COMPREPLY=()
  _seenby "$seenby"
  printf '%s\n' "${COMPREPLY[@]}"
}
diff <(printf '%s\n' "${commands[@]}" | sort) <(complete_bash "" | sort) || fail "bash: the commands"
[ "$(complete_bash pl)" = plan ] || fail "bash: seenby pl<TAB> gave '$(complete_bash pl)'"
for command in "${commands[@]}"; do
  diff <(options "$command") <(complete_bash "$command" -- | sort) || fail "bash: the options of $command"
done
[ "$(complete_bash replay --pa)" = --page ] || fail "bash: seenby replay --pa<TAB>"
[ "$(complete_bash plan --layout sp)" = split-block ] || fail "bash: seenby plan --layout sp<TAB>"
[ "$(complete_bash replay READ)" = README.md ] || fail "bash: files"

# zsh: the file is a completion function, and its words are those of --help.
if command -v zsh >/dev/null; then
  zsh -n src/tool/share/_seenby
  offered=$(SEENBY=$seenby zsh -fc '
    autoload -Uz compinit; fpath=(src/tool/share $fpath); compinit -D -u
    [[ $_comps[seenby] == _seenby ]] || { print "not registered"; exit }
    _call_program() { shift; "$@" }
    _describe() { print -l -- ${(P)@[-1]} }
    _files() { print files }
    complete_zsh() { words=("$SEENBY" "$@") CURRENT=$(($# + 1)) PREFIX=${@[-1]} ; _seenby }
    autoload +X _seenby
    complete_zsh "" | sed "s/:.*//"; complete_zsh replay --; complete_zsh replay ""' 2>&1)
  diff <(printf '%s\n' "${commands[@]}" && options replay && echo files) \
    <(head -n ${#commands[@]} <<<"$offered" && tail -n +$((${#commands[@]} + 1)) <<<"$offered" | sed '$d' | sort && tail -n 1 <<<"$offered") ||
    fail "zsh offers other words than --help has"
fi
