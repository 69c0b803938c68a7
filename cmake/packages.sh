# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# need PACKAGE[>=VERSION]...: installs what is missing on Debian and Ubuntu, silent about what is there. A version that
# the normal suite lacks comes from the machine's own mirror's backports.

installed_version() { dpkg-query -W -f='${db:Status-Status} ${Version}' "$1" 2>/dev/null | sed -n 's/^installed //p'; }

# satisfied PACKAGE VERSION MINIMUM: is there a version, and is it new enough?
satisfied() { [ -n "$1" ] && { [ -z "$2" ] || dpkg --compare-versions "$1" ge "$2"; }; }

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

apt_install() {
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# Backports stand on the mirror that already serves this release; its address is taken from there.
# shellcheck disable=SC2016  # the dollars are apt's
enable_backports() {
  local codename mirror
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  if apt-get indextargets --format '$(RELEASE)' 'Identifier: Packages' | grep -qx "$codename-backports"; then return 0; fi
  mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Identifier: Packages' |
    sed -n "s/^$codename //p" | head -n 1)
  if [ -z "$mirror" ]; then
    echo "no apt source for $codename found to take backports from" >&2
    return 1
  fi
  echo "adding $codename-backports from this machine's mirror" >&2
  printf 'deb %s%s %s-backports main\n' \
    "$([ -e /usr/share/keyrings/debian-archive-keyring.gpg ] && echo '[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ')" \
    "$mirror" "$codename" | as_root tee "/etc/apt/sources.list.d/$codename-backports.list" >/dev/null
  # Another source that cannot be reached is not ours to complain about; the install below tells what is missing.
  quietly as_root apt-get update || true
}

need() {
  local spec name minimum candidate missing=() plain=() backports=()
  for spec in $(printf '%s\n' "$@" | sort -u); do
    name=${spec%%>=*}
    minimum=${spec#"$name"}
    minimum=${minimum#>=}
    satisfied "$(installed_version "$name")" "$minimum" || missing+=("$name $minimum")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing: ${missing[*]%% *}" >&2
  quietly as_root apt-get update || true
  for spec in "${missing[@]}"; do
    read -r name minimum <<<"$spec"
    candidate=$(apt-cache policy "$name" | sed -n 's/^ *Candidate: //p')
    [ "$candidate" = "(none)" ] && candidate=
    if satisfied "$candidate" "$minimum"; then plain+=("$name"); else backports+=("$name"); fi
  done
  if [ ${#plain[@]} -gt 0 ]; then apt_install "${plain[@]}" || return 1; fi
  if [ ${#backports[@]} -gt 0 ]; then
    enable_backports || return 1
    apt_install -t "$(. /etc/os-release && echo "$VERSION_CODENAME")-backports" "${backports[@]}" || return 1
  fi
}
