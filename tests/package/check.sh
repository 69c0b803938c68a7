#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# One way of using seenby from outside, held by ctest:
#   check.sh BUILD_DIR CXX install | find_package | wrong_version | missing_component | forgotten_component NAME |
#                          pulled_in NAME BY | component NAME | service | pkg_config NAME... | shared NAME... |
#                          add_subdirectory | plain_compiler | bare_command | one_minimum | two_units | compiled |
#                          debian NAME...
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
    for file in include/seenby/filters/bloom_filter.hpp include/seenby/version.hpp share/seenby/gdb/seenby.py; do
      test -f "$prefix/$file"
    done
    find "$prefix" -name FindxxHash.cmake | grep -q . # for systems that lack it
    # The command is installed where it was built, and runs from there.
    if [ -x "$build/bin/seenby" ]; then
      "$prefix/bin/seenby" --version
      for file in man/man1/seenby.1 bash-completion/completions/seenby zsh/site-functions/_seenby; do
        test -f "$prefix/share/$file"
      done
    fi
    ;;
  find_package)
    configure -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=0.2
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  wrong_version)
    refused 'compatible with requested version "0.1"' -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=0.1
    rm "$dir/CMakeCache.txt"
    refused 'compatible with requested version "1.0"' -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=1.0
    ;;
  missing_component)
    refused "seenby has no component 'abacus' installed here; installed:" \
      -DCMAKE_PREFIX_PATH="$prefix" -DWANT_COMPONENTS=abacus
    ;;
  component)
    configure -DCMAKE_PREFIX_PATH="$prefix" -DWANT_VERSION=0.2 -DWANT_COMPONENTS="$4"
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  service)
    # A service on the installed package, a Redis of its own behind it, and many clients at once.
    cmake -S "$source/tests/package/service" -B "$dir" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_PREFIX_PATH="$prefix" -DSOURCE="$source/examples/redis_service.cpp"
    cmake --build "$dir"
    pids=()
    sockets=$(mktemp -d) # a socket's path is short
    trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$sockets"' EXIT
    redis-server --port 0 --unixsocket "$sockets/redis" --save '' --dir "$sockets" >"$dir/redis.log" &
    pids+=($!)
    until_there() { for _ in $(seq 100); do if [ ! -s "$1" ] && [ ! -S "$1" ]; then sleep 0.1; fi; done; }
    until_there "$sockets/redis"
    "$dir/service" "unix://$sockets/redis?pool=8&timeout_ms=5000" 0 >"$dir/address" &
    pids+=($!)
    until_there "$dir/address"
    "$dir/load" "$(sed 's|/users/.*||' "$dir/address")"
    ;;
  forgotten_component)
    refused "consumer links seenby::$4: write find_package(seenby REQUIRED COMPONENTS $4)" \
      -DCMAKE_PREFIX_PATH="$prefix" -DLINK_COMPONENTS="$4"
    # Another find_package, wherever it is, may ask for it.
    configure -DCMAKE_PREFIX_PATH="$prefix" -DWANT_COMPONENTS="$4" -DLINK_COMPONENTS="$4"
    ;;
  pulled_in)
    # A component that another one stands on is there with it.
    configure -DCMAKE_PREFIX_PATH="$prefix" -DWANT_COMPONENTS="$5" -DLINK_COMPONENTS="$4"
    ;;
  pkg_config)
    # The core and each component, without CMake, from wherever the package was moved to.
    mv "$prefix" "$dir/moved"
    trap 'mv "$dir/moved" "$prefix"' EXIT
    PKG_CONFIG_PATH=$(dirname "$(find "$dir/moved" -name seenby.pc)")
    export PKG_CONFIG_PATH
    test "$(pkg-config --modversion seenby)" = "$(sed -n 's/.*SEENBY_VERSION "\(.*\)"/\1/p' "$source/include/seenby/version.hpp")"
    consumer=$source/tests/package/consumer
    read -ra flags < <(pkg-config --cflags seenby)
    "$cxx" -std=c++20 "${flags[@]}" "$consumer/main.cpp" -o "$dir/consumer"
    "$dir/consumer"
    for component in "${@:4}"; do
      sources=("$consumer/main.cpp")
      if [ -e "$consumer/$component.cpp" ]; then sources+=("$consumer/$component.cpp"); fi
      read -ra flags < <(pkg-config --cflags --libs "seenby-$component")
      "$cxx" -std=c++20 "${sources[@]}" "${flags[@]}" -o "$dir/$component"
      "$dir/$component"
    done
    ;;
  shared)
    # Shared libraries say their version and export what is theirs, not what the templates they use left there.
    # The units are compiled as the build's own: a ccache has them, and only the links are new.
    configured() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
    cmake -S "$source" -B "$dir/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
      -DCMAKE_BUILD_TYPE="$(configured CMAKE_BUILD_TYPE)" -DCMAKE_CXX_FLAGS="$(configured CMAKE_CXX_FLAGS)" \
      -DSEENBY_WARNINGS_AS_ERRORS="$(configured SEENBY_WARNINGS_AS_ERRORS)" -DBUILD_SHARED_LIBS=ON \
      -DSEENBY_BUILD_TESTS=OFF -DSEENBY_BUILD_TOOL=OFF -DSEENBY_BUILD_EXAMPLES=OFF
    cmake --build "$dir/build" -j 1
    cmake --install "$dir/build" --prefix "$dir/prefix" >"$dir/log"
    for component in "${@:4}"; do
      library=$(find "$dir/prefix" -name "libseenby_$component.so")
      readelf -d "$library" | grep -E "SONAME.*libseenby_$component\.so\.[0-9]+\.[0-9]+\]"
      nm -DC --defined-only "$library" | cut -d' ' -f3- >"$dir/$component.symbols"
      if grep -vE '^((typeinfo|typeinfo name|vtable) for )?seenby::' "$dir/$component.symbols"; then
        echo "libseenby_$component.so exports the symbols above, which are not seenby's"
        exit 1
      fi
      echo "libseenby_$component.so exports $(wc -l <"$dir/$component.symbols") symbols"
      count=$(wc -l <"$dir/$component.symbols")
      test "$count" -gt 0
      test "$count" -le 400
    done
    configure -DCMAKE_PREFIX_PATH="$dir/prefix" -DWANT_COMPONENTS="$(IFS=';' && echo "${*:4}")"
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  one_minimum)
    # Every place that states the CMake it needs states the same.
    stated=$(cd "$source" && {
      sed -nE 's/^cmake_minimum_required\(VERSION ([0-9.]+).*/\1/p' CMakeLists.txt tests/package/consumer/CMakeLists.txt
      tr -d ' \n' <CMakePresets.json | sed -nE 's/.*"cmakeMinimumRequired":\{"major":([0-9]+),"minor":([0-9]+).*/\1.\2\n/p'
      sed -nE 's/.*CMake ([0-9]+\.[0-9]+) and later.*/\1/p' README.md
    })
    echo "$stated"
    test "$(wc -l <<<"$stated")" -eq 4
    test "$(sort -u <<<"$stated" | wc -l)" -eq 1
    ;;
  add_subdirectory)
    configure -DSEENBY_SOURCE="$source"
    cmake --build "$dir"
    "$dir/consumer"
    ;;
  bare_command)
    # The command as it is built where no component's library is installed, without a warning: the files that differ.
    grep -lE 'SEENBY_TOOL_WITH|_url.hpp' "$source"/src/tool/{.,plan,ingest}/*.cpp | xargs -P "$(nproc)" -I{} \
      "$cxx" -std=c++20 -S -o /dev/null -Wall -Wextra -Werror -DSEENBY_TOOL_WITH_INGEST \
      -I"$source/src/tool" -I"$source/src" -I"$source/include" {}
    ;;
  plain_compiler)
    # The package's promise to those without CMake: include/ beside xxhash.h, and not a flag more.
    "$cxx" -std=c++20 "-I$source/include" "$source/tests/package/consumer/main.cpp" -o "$dir/consumer"
    "$dir/consumer"
    ;;
  compiled)
    # With seenby::core and without, the answers are the same; with it, no unit compiles a kernel or a store.
    program=$source/tests/package/compiled/main.cpp
    library=$(find "$build" -maxdepth 3 -name 'libseenby_core.*' | head -1)
    "$cxx" -std=c++20 -O1 "-I$source/include" "$program" -o "$dir/header_only"
    "$cxx" -std=c++20 -O1 -DSEENBY_COMPILED "-I$source/include" -c "$program" -o "$dir/compiled.o"
    "$cxx" "$dir/compiled.o" "$library" -Wl,-rpath,"$(dirname "$library")" -o "$dir/compiled"
    "$dir/header_only" | tee "$dir/expected"
    "$dir/compiled" | diff "$dir/expected" -
    if nm -C "$dir/compiled.o" | grep -E ' [TtWw] seenby::.*(avx2::check|Shard<.*>::insert|::run_relaxations|::answer<)'; then
      echo "compiled in the unit although seenby::core has it"
      exit 1
    fi
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
  debian)
    # The packages in a dpkg root of their own: installed, used, and removed without a trace.
    if ! command -v dpkg cpack apt-get >/dev/null; then echo "SKIPPED: no dpkg" && exit 77; fi
    cpack --config "$build/CPackConfig.cmake" -B "$dir/packages" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
    packages=("$dir"/packages/*.deb)
    names=()
    for package in "${packages[@]}"; do
      names+=("$(dpkg-deb -f "$package" Package)")
      # Nothing but /usr, and nothing in two packages: dpkg refuses to overwrite.
      if dpkg-deb -c "$package" | awk '{print $6}' | grep -v '^\./usr/'; then exit 1; fi
    done
    for name in "${@:4}"; do [[ " ${names[*]} " == *" libseenby-${name//_/-}-dev "* ]]; done
    root=$dir/root
    admin=$root/var/lib/dpkg
    mkdir -p "$admin/info" "$admin/updates" "$admin/triggers"
    touch "$admin/status" "$admin/available"
    # What they depend on is the machine's, outside that root: that it can be installed, apt says.
    in_root=(dpkg --root="$root" --force-not-root --force-depends --log="$dir/dpkg.log")
    "${in_root[@]}" --install "${packages[@]}" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
    apt-get --simulate --no-install-recommends install "${packages[@]}" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
    if [ -x "$root/usr/bin/seenby" ]; then "$root/usr/bin/seenby" --version; fi
    configure -DCMAKE_PREFIX_PATH="$root/usr" -DWANT_COMPONENTS="$(IFS=";" && echo "${*:4}")"
    cmake --build "$dir"
    "$dir/consumer"
    "${in_root[@]}" --purge "${names[@]}" >"$dir/log" 2>&1 || { cat "$dir/log" && exit 1; }
    if find "$root/usr" ! -type d 2>/dev/null | grep .; then
      echo "the files above are left behind"
      exit 1
    fi
    ;;
  *)
    echo "unknown check: $what" >&2
    exit 2
    ;;
esac
