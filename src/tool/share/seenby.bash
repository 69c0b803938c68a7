# SPDX-License-Identifier: MIT
# bash completion for seenby. Commands and options are those that the command itself tells.

_seenby() {
  local word command='' cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word != -* ]]; then command=$word && break; fi
  done
  local help words=''
  help=$("$1" ${command:+"$command"} --help 2>/dev/null) || return
  # An option that takes one of a few words lists them: "--layout LAYOUT:{classic,split-block}".
  if [[ $prev == --* && $help =~ [[:space:]]$prev\ [A-Z]+:\{([^}]*)\} ]]; then
    words=${BASH_REMATCH[1]//,/ }
  elif [[ $cur == -* ]]; then
    words=$(sed -n 's/^  \(-h,\)\{0,1\}\(--[a-z0-9-]*\).*/\2/p' <<<"$help")
  elif [[ -z $command ]]; then
    words=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' <<<"$help")
  fi
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -o filenames -F _seenby seenby
