#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a build into an empty folder and builds a program against it in every way that users have: the four
# targets of the CMake package, pkg-config, and a program with no shared libraries; and runs the command.
# Usage: install_test.sh CMAKE BUILD SCRATCH CXX
set -eu
cmake=$1 build=$2 scratch=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)
prefix=$scratch/prefix
rm -rf "$prefix" "$scratch/consumer"

"$cmake" --install "$build" --prefix "$prefix" >"$scratch/install.log"
"$cmake" -S "$here/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$scratch/configure.log"
"$cmake" --build "$scratch/consumer"
for how in malloc malloc_static; do "$scratch/consumer/with_$how" replaced; done
for how in tarn tarn_static; do "$scratch/consumer/with_$how" kept; done

printed=$("$prefix/bin/tarn" run -- env)
case $printed in
  *LD_PRELOAD=*"$prefix"/*libtarn.so*) ;;
  *) echo "the installed command does not preload the installed library: $printed"; exit 1 ;;
esac

libraries=$(dirname "$(find "$prefix" -name libtarn.so)")
"$cxx" -std=c++20 -static -I"$prefix/include" "$here/consumer/consumer.cpp" -o "$scratch/with_nothing_shared" \
  -Wl,--undefined=malloc,--undefined=_Znwm "$libraries/libtarn.a"
"$scratch/with_nothing_shared" replaced
if ! command -v pkg-config >/dev/null; then
  echo "pkg-config is missing: that way not checked"
  exit 0
fi
export PKG_CONFIG_PATH=$libraries/pkgconfig
# shellcheck disable=SC2046 # several words
for package in tarn:replaced tarn-api:kept; do
  "$cxx" -std=c++20 -Wl,--as-needed "$here/consumer/consumer.cpp" -o "$scratch/with_pkg_config" \
    $(pkg-config --cflags --libs "${package%:*}")
  LD_LIBRARY_PATH=$libraries "$scratch/with_pkg_config" "${package#*:}"
done
echo "an installed tarn serves CMake, pkg-config and a static program"
