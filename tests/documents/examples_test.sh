#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Copies examples/ to an empty folder, builds it there with an installed tarn alone, as a user would, and runs the tests
# that it brings. With names of examples it builds only these; with the word meson or adapters that folder.
# Usage: examples_test.sh CMAKE PREFIX SCRATCH CC CXX [EXAMPLE…]
set -eu
cmake=$1 prefix=$2 scratch=$3 cc=$4 cxx=$5
shift 5
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
[ -e "$prefix/include/tarn/malloc.h" ] || { echo "skipped: there is no tarn in $prefix"; exit 77; }

rm -rf "$scratch"
mkdir -p "$scratch"
cp -r "$examples" "$scratch/examples"
cd "$scratch/examples"
export CC=$cc CXX=$cxx CFLAGS='-Wall -Wextra -Werror' CXXFLAGS='-Wall -Wextra -Werror'
export CMAKE_PREFIX_PATH=$prefix PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib

if [ "${1-}" = meson ]; then
  for tool in meson pkg-config; do
    command -v $tool >/dev/null || { echo "skipped: $tool is missing (Debian's package of the same name)"; exit 77; }
  done
  cd meson
  meson setup --werror build >meson.log || { cat meson.log; exit 1; }
  meson compile -C build >compile.log || { cat compile.log; exit 1; }
  exec meson test -C build
fi

only='.'
if [ "${1-}" = adapters ]; then
  cd adapters
  shift
elif [ $# -gt 0 ]; then
  only="^example.($(IFS='|' && echo "$*"))\$"
fi
"$cmake" -B build -G Ninja -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >configure.log || { cat configure.log; exit 1; }
"$cmake" --build build ${1+--target "${@/#/example_}"} -- -k 0 >build.log || { cat build.log; exit 1; }
ctest --test-dir build --output-on-failure --no-tests=error -R "$only"
