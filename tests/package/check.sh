#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One way of using seenby from outside, held by ctest:
#   check.sh BUILD_DIR CXX install | find_package | wrong_version | missing_component | component NAME |
#                          add_subdirectory | plain_compiler | two_units
set -euo pipefail
build=$1 cxx=$2 what=$3
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$build/package-test
prefix=$work/prefix
dir=$work/$what${4:+-$4}
rm -rf "$dir"
mkdir -p "$dir"

configure() {
  cmake -S "$source/tests/package/consumer" -B "$dir" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release "$@"
}

# refused MESSAGE CMAKE_ARGUMENT...: the consumer must not configure, and the reason must be said.
refused() {
  local message=$1 log=$dir/log
  shift
  if configure "$@" >"$log" 2>&1; then
    echo "configured although it must be refused: $*"
    exit 1
  fi
  if ! tr -s ' \n' ' ' <"$log" | grep -qF "$message"; then
    echo "refused, but without saying '$message':"
    cat "$log"
    exit 1
  fi
  grep -F -A 4 "CMake Error" "$log"
}

case $what in
  install)
    rm -rf "$prefix"
    cmake --install "$build" --prefix "$prefix" >"$dir/log"
    for file in include/seenby/filters/bloom_filter.hpp include/seenby/version.hpp; do test -f "$prefix/$file"; done
    find "$prefix" -name FindxxHash.cmake | grep -q . # for systems that lack it
    # The command is installed where it was built, and runs from there.
    if [ -x "$build/bin/seenby" ]; then "$prefix/bin/seenby" --version; fi
    ;;
  find_package)
    configure -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=0.1
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  wrong_version)
    refused 'compatible with requested version "0.2"' -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=0.2
    rm "$dir/CMakeCache.txt"
    refused 'compatible with requested version "1.0"' -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=1.0
    ;;
  missing_component)
    refused "seenby has no component 'abacus' installed here; installed:" \
      -DCMAKE_PREFIX_PATH="$prefix" -DWANT_COMPONENTS=abacus
    ;;
  component)
    configure -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=0.1 -DWANT_COMPONENTS="$4"
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  add_subdirectory)
    configure -DSEENBY_SOURCE="$source"
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  plain_compiler)
    # The package's promise to those without CMake: include/ beside xxhash.h, and not a flag more.
    "$cxx" -std=c++20 "-I$source/include" "$source/tests/package/consumer/main.cpp" -o "$dir/consumer"
    "$dir/consumer"
    ;;
  two_units)
    units=$source/tests/package/two_units
    # -O0 keeps every inline function as a symbol of its own: the linker then merges all that have one name.
    "$cxx" -std=c++20 -O0 "-I$source/include" -DUNIT_NAME=plain_unit -c "$units/unit.cpp" -o "$dir/plain.o"
    "$cxx" -std=c++20 -O0 -mavx2 "-I$source/include" -DUNIT_NAME=avx2_unit -c "$units/unit.cpp" -o "$dir/avx2.o"
    "$cxx" -std=c++20 "$units/main.cpp" "$dir/plain.o" "$dir/avx2.o" -o "$dir/program"
    "$dir/program"
    for unit in plain avx2; do
      # Code alone: an inline variable may well be one for the whole program.
      nm --defined-only "$dir/$unit.o" | awk '$2 ~ /[WT]/ {print $3}' | c++filt | grep 'seenby::detail' | sort -u \
        >"$dir/$unit.symbols"
      test -s "$dir/$unit.symbols"
    done
    if comm -12 "$dir/plain.symbols" "$dir/avx2.symbols" | grep .; then
      echo "the functions of seenby::detail above have one symbol for two instruction sets"
      exit 1
    fi
    ;;
  *)
    echo "unknown check: $what" >&2
    exit 2
    ;;
esac
