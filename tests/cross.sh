#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the unit tests for another processor and runs them under qemu-user: NEON's kernels on aarch64, big-endian bytes
# on s390x.
#
#   tests/cross.sh aarch64            # all unit, property and golden tests
#   tests/cross.sh aarch64 kernels    # only the sources and tests tagged [kernels]
#
# Debian has the compilers. Catch2 for the other processor is unpacked, not installed, into the build folder, from the
# release that this machine's own Catch2 comes from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=cmake/packages.sh
source cmake/packages.sh

arch=${1:?aarch64 or s390x}
tag=${2:-}
case $arch in
  aarch64) debian=arm64 ;;
  s390x) debian=s390x ;;
  *) echo "cross: expected aarch64 or s390x, got $arch" >&2; exit 1 ;;
esac
need "g++-$arch-linux-gnu" qemu-user cmake ninja-build libxxhash-dev 'catch2>=3'
build=$PWD/build/cross-$arch
catch=$build/catch2

if [[ ! -e $catch/usr ]]; then
  lists=$build/apt
  mkdir -p "$lists/lists/partial" "$lists/archives/partial" "$catch"
  version=$(dpkg-query -W -f='${Version}' libcatch2-dev)
  # The sources of this machine, for the other processor, in a folder of our own.
  apt=(-o "Dir::State::Lists=$lists/lists" -o Dir::State::status=/dev/null -o "Dir::Cache=$lists" -o Acquire::Languages=none
       -o APT::Sandbox::User=root -o "APT::Architecture=$debian" -o "APT::Architectures=$debian")
  quietly apt-get "${apt[@]}" update
  (cd "$lists" && quietly apt-get "${apt[@]}" download "libcatch2-dev=$version")
  dpkg-deb -x "$lists"/libcatch2-dev_*.deb "$catch"
  rm -rf "$lists"
fi

components=$(find src -mindepth 2 -maxdepth 2 -name CMakeLists.txt -printf "%h\n" | xargs -n 1 basename | grep -vx tool)
off=()
for component in $components; do off+=("-DSEENBY_WITH_${component^^}=OFF"); done
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$arch" \
  -DCMAKE_CXX_COMPILER="$arch-linux-gnu-g++" "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-$arch;-L;/usr/$arch-linux-gnu" \
  -DCatch2_DIR="$catch/usr/lib/cmake/Catch2" -DxxHash_INCLUDE_DIR=/usr/include -DSEENBY_TEST_TAG="$tag" \
  -DSEENBY_BUILD_TOOL=OFF -DSEENBY_BUILD_EXAMPLES=OFF -DSEENBY_WARNINGS_AS_ERRORS=ON "${off[@]}" > "$build/configure.log"
cmake --build "$build" --target seenby_unit_tests
ctest --test-dir "$build" --no-tests=error --output-on-failure -L unit -j "$(nproc)"
