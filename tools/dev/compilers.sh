# SPDX-License-Identifier: MIT
# ./dev test: has every compiler that tarn supports read all of its sources, with warnings as errors. GCC 12 (this system's)
# builds the presets; Clang 16 is this system's too; GCC 14 and Clang 19 live in a Debian 13 that is made once. Sourced by ./dev.
# shellcheck shell=bash

# Outside of the clone, so that it is made once.
compilers_root=${TARN_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/tarn}/trixie-compilers

# check_compilers [ON]: what users build, by GCC 14 and Clang 19; with ON the tests and benchmarks too, and Clang 16, whose front end
# clang-tidy has run over what changed. Returns 77 if no compiler was asked.
check_compilers() {
  local tests=${1:-OFF} clang status=77
  clang=$(command -v clang++-16)
  if [ "$tests" = OFF ]; then
    :
  elif [ -n "$clang" ]; then
    step "Compiling with Clang 16" build/log/compile-clang-16.log compile_with "$clang" "$tests"
    status=$?
  else
    echo "Not compiled with Clang 16: clang++-16 is missing"
  fi
  if ! has_root_of_compilers; then
    echo "Not compiled with GCC 14 and Clang 19: that takes root, debootstrap and unshare"
    return $status
  fi
  [ -d "$compilers_root" ] || step "Making a Debian 13 for its compilers" build/log/compilers-root.log make_root_of_compilers ||
    return 1
  step "Compiling with GCC 14" build/log/compile-gcc-14.log compile_in_root g++ "$tests" || return 1
  step "Compiling with Clang 19" build/log/compile-clang-19.log compile_in_root clang++-19 "$tests" || return 1
  [ $status -eq 77 ] || return $status
}

has_root_of_compilers() {
  [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null 2>&1 && unshare --mount true 2>/dev/null
}

# compile_with COMPILER TESTS [FOLDER]
compile_with() {
  local folder=${3:-build/compilers/${1##*/}}
  # The C parts are a handful of files, which this system's C compiler builds.
  CXX=$1 cmake --preset release -B "$folder" -DTARN_BUILD_TESTS="$2" -DTARN_BUILD_BENCHMARKS="$2" -DTARN_WERROR=ON -DTARN_ENGINE_UNITY=ON || return
  # The one source that is generated.
  cmake -D PAGE=profiler/report/bundle/report.html -D SOURCE="$folder/profiler/report/report_page.cpp" \
    -P profiler/report/embed.cmake || return
  python3 tools/compile_with.py "$folder"
}

# In a mount namespace of its own: debootstrap leaves /proc mounted in the system while another program reads it.
make_root_of_compilers() {
  local making=$compilers_root.making
  rm -rf "$making"
  mkdir -p "$making"
  unshare --mount debootstrap --variant=minbase --include="$compilers_root_packages" trixie "$making" || return
  rm -rf "$making/var/cache/apt/archives"
  mkdir -p "$making/tarn" "$making/build"
  mv "$making" "$compilers_root"
}

# The mounts end with the namespace. The sources cannot be written to from inside.
compile_in_root() {
  # shellcheck disable=SC2016 # for the inner shell
  unshare --mount bash -ec '
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mount --bind /dev "$1/dev"
    mount --bind -o ro "$PWD" "$1/tarn"
    exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 bash -ec "
      cd /tarn
      . tools/dev/compilers.sh
      compile_with $2 $3 /build/$2"' - "$compilers_root" "$1" "$2"
}
