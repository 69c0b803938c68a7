#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Unpacks the headers of Boost 1.89 or later (the first with all of Boost.Bloom) beside this script, into the ignored
# folder .deps/boost, from the Debian release that has them. Installs nothing; needs no root. The mirror is the one this
# machine already uses, and apt checks the signatures as always.
#
#   bench/peers/get_boost.sh            # does nothing when the headers are there
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deps=$here/.deps
[[ -e $deps/boost/include/boost/bloom/filter.hpp ]] && { echo "get_boost: already in $deps/boost"; exit 0; }

# shellcheck disable=SC2016  # the dollar is apt's
site=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Component: main' | head -n 1)
[[ -n $site ]] || { echo "get_boost: expected a Debian mirror among this machine's apt sources, found none" >&2; exit 1; }

mkdir -p "$deps/apt/lists/partial" "$deps/apt/archives/partial"
apt=(-o "Dir::Etc::SourceList=$deps/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$deps/apt/lists"
     -o Dir::State::status=/dev/null -o "Dir::Cache=$deps/apt" -o Acquire::Languages=none -o APT::Sandbox::User=root)
trap 'rm -rf "$deps/apt"' EXIT

for release in testing unstable; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $release main" > "$deps/apt/sources.list"
  apt-get "${apt[@]}" -qq update
  package=$(apt-cache "${apt[@]}" pkgnames libboost1. | grep -E '^libboost1\.(89|9[0-9])-dev$' | sort -V | tail -n 1 || true)
  [[ -n $package ]] && break
done
[[ -n $package ]] || { echo "get_boost: expected Boost 1.89 or later in testing or unstable, found none" >&2; exit 1; }

(cd "$deps/apt" && apt-get "${apt[@]}" -qq download "$package")
dpkg-deb -x "$deps/apt/$package"_*.deb "$deps/apt/unpacked"
rm -rf "$deps/boost"
mkdir -p "$deps/boost"
mv "$deps/apt/unpacked/usr/include" "$deps/boost/include"
echo "get_boost: $package from $release is in $deps/boost"
