#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs only what `./dev build` builds into an empty folder and builds a program against it in each way that users
# have: the four targets of the CMake package, pkg-config, and a static program. Then runs the installed command: tarn
# run, profile and apply.
# Usage: install_test.sh CMAKE BUILD SCRATCH CXX
set -eu
cmake=$1 build=$2 scratch=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)
prefix=$scratch/prefix
products=$scratch/products
rm -rf "$prefix" "$products" "$scratch/consumer"

# The targets that ./dev build builds, and the files in lib/ and bin/ that the build system makes for them.
# shellcheck source=tools/dev/build.sh
. "$here/../../tools/dev/build.sh"
build() { shift; printf '%s\n' "$@"; }
mapfile -t targets < <(build_release_products)
mapfile -t files < <(ninja -C "$build" -t graph "${targets[@]}" | sed -nE 's,.*label="((lib|bin)/[^"]*)".*,\1,p' | sort -u)
# Makes a build folder with these files only; CMake's install scripts name files by their full path.
for file in "${files[@]}"; do
  mkdir -p "$products/$(dirname "$file")"
  cp -P "$build/$file" "$products/$file"
done
cp -r "$build/package" "$products/package"
mkdir -p "$products/cli"
cp -r "$build/cli/manual" "$products/cli/manual"
while IFS= read -r script; do
  mkdir -p "$products/$(dirname "$script")"
  sed "/OLD_RPATH/!s,$build/\(lib\|bin\|package\|cli/manual\|[a-z/_]*cmake_install\),$products/\1,g" "$build/$script" >"$products/$script"
done < <(cd "$build" && find . -name cmake_install.cmake)
"$cmake" --install "$products" --prefix "$prefix" >"$scratch/install.log"
"$cmake" -S "$here/consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$scratch/configure.log"
"$cmake" --build "$scratch/consumer"
for how in malloc malloc_static; do "$scratch/consumer/with_$how" replaced; done
for how in tarn tarn_static; do "$scratch/consumer/with_$how" kept; done
# Only --undefined=tarn_program_start makes the linker take the archive's start-up before all constructors.
starts_early() {
  nm "$1" | grep -q ' tarn_program_start$' || { echo "$1: the start before constructors is missing"; exit 1; }
}
for how in malloc_static tarn_static; do starts_early "$scratch/consumer/with_$how"; done

for file in man/man1/tarn.1 man/man1/tarn-run.1 bash-completion/completions/tarn zsh/site-functions/_tarn \
  fish/vendor_completions.d/tarn.fish; do
  [ -s "$prefix/share/$file" ] || { echo "$file is not installed"; exit 1; }
done
printed=$("$prefix/bin/tarn" run -- env)
case $printed in
  *LD_PRELOAD=*"$prefix"/*libtarn.so*) ;;
  *) echo "the installed command does not preload the installed library: $printed"; exit 1 ;;
esac

cd "$scratch"
rm -f of_true.prof
"$prefix/bin/tarn" profile -o of_true.prof -- true >/dev/null 2>profile.log || { cat profile.log; exit 1; }
"$prefix/bin/tarn" show of_true.prof >/dev/null
# A plan with a pool makes tarn run --plan preload libtarn_apply.so.
printf '{"tarn_plan": 1, "sites": [{"use": "pool", "size": 64, "frames": [{"module": "/bin/true", "offset": "0x1"}]}]}' >plan.json
"$prefix/bin/tarn" run --plan plan.json -- true
# The library that times single calls is there too.
"$prefix/bin/tarn" compare --tail -r 1 -w 0 --touch 0 --only tarn -- true >/dev/null 2>tail.log || { cat tail.log; exit 1; }

libraries=$(dirname "$(find "$prefix" -name libtarn.so)")
"$cxx" -std=c++20 -static -I"$prefix/include" "$here/consumer/consumer.cpp" -o "$scratch/with_nothing_shared" \
  -Wl,--undefined=malloc,--undefined=_Znwm,--undefined=tarn_program_start "$libraries/libtarn.a"
"$scratch/with_nothing_shared" replaced
starts_early "$scratch/with_nothing_shared"
if ! command -v pkg-config >/dev/null; then
  echo "pkg-config is missing: not checked"
  exit 0
fi
export PKG_CONFIG_PATH=$libraries/pkgconfig
# shellcheck disable=SC2046 # pkg-config prints several words
for package in tarn:replaced tarn-api:kept; do
  "$cxx" -std=c++20 -Wl,--as-needed "$here/consumer/consumer.cpp" -o "$scratch/with_pkg_config" \
    $(pkg-config --cflags --libs "${package%:*}")
  LD_LIBRARY_PATH=$libraries "$scratch/with_pkg_config" "${package#*:}"
  "$cxx" -std=c++20 -static "$here/consumer/consumer.cpp" -o "$scratch/with_static_pkg_config" \
    $(pkg-config --static --cflags --libs "${package%:*}")
  "$scratch/with_static_pkg_config" "${package#*:}"
  starts_early "$scratch/with_static_pkg_config"
done
# jemalloc's names: by tarn's own header, and by the link that programs find under jemalloc's file name.
printf '%s\n' '#include <jemalloc/jemalloc.h>' \
  'int main() { void* p = mallocx(10, MALLOCX_ZERO); dallocx(p, 0); return p == nullptr; }' >"$scratch/names.cpp"
# shellcheck disable=SC2046
"$cxx" "$scratch/names.cpp" -o "$scratch/with_jemalloc_names" $(pkg-config --cflags --libs tarn-jemalloc)
LD_LIBRARY_PATH=$libraries "$scratch/with_jemalloc_names"
[ "$(realpath "$libraries/tarn/jemalloc/libjemalloc.so.2")" = "$(realpath "$libraries/libtarn-jemalloc.so.2")" ] ||
  { echo "the link libjemalloc.so.2 does not lead to the installed library"; exit 1; }
echo "an installed tarn serves CMake, pkg-config and a static program"
