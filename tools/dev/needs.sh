# SPDX-License-Identifier: MIT
# What the commands need, and how it gets there: by apt-get on Debian and Ubuntu; elsewhere what is missing is
# named. Sourced by ./dev.
# shellcheck shell=bash

# One need per line: how to see that it is there, and the Debian package that brings it. A word is a command,
# <…> a C++ header, lib:… a shared library, py:… a module of any python3, syspy:… of the system's own, /… a
# file, which may be a pattern. Of several joined by | one is enough, the first that is to be had.

# To build the libraries and the command.
needs_build='
cmake                 cmake
ninja                 ninja-build
g++                   g++
python3               python3
<CLI/CLI.hpp>         libcli11-dev
<fmt/core.h>          libfmt-dev
<nlohmann/json.hpp>   nlohmann-json3-dev
<zstd.h>              libzstd-dev
<microhttpd.h>        libmicrohttpd-dev
<curl/curl.h>         libcurl4-openssl-dev
<sqlite3.h>           libsqlite3-dev
<zlib.h>              zlib1g-dev
<elfutils/libdw.h>    libdw-dev
<gelf.h>              libelf-dev'
# Without it the command shows names of Rust as compilers write them.
wants_build='
/usr/lib/*/libiberty.a|/usr/lib64/libiberty.a  libiberty-dev'
# Allocators that `tarn compare` takes by itself.
wants_peers='
lib:libjemalloc.so.2                           libjemalloc2
lib:libmimalloc.so.2|lib:libmimalloc.so.3      libmimalloc2.0|libmimalloc3
lib:libtcmalloc_minimal.so.4                   libtcmalloc-minimal4|libtcmalloc-minimal4t64'
# What packaging/ makes artefacts with; an artefact whose tool is missing is not made.
wants_release='
dpkg-buildpackage  dpkg-dev
/usr/share/build-essential/list  build-essential
dh                 debhelper
lintian            lintian
gpg                gpg
py:ensurepip       python3-venv
<valgrind/memcheck.h>  valgrind
/usr/lib/*/libbz2.a   libbz2-dev
/usr/lib/*/liblzma.a  liblzma-dev'
wants_release_check='
debootstrap  debootstrap
unshare      util-linux'
# Another version is not asked.
wants_quick='
clang-format-16  clang-format-16'
needs_check='
git                                                                           git
clang-format-16|clang-format-17|clang-format-15|clang-format-14|clang-format  clang-format-16|clang-format
clang-tidy-16|clang-tidy-17|clang-tidy-18|clang-tidy-15|clang-tidy            clang-tidy-16|clang-tidy'
wants_check='
clang++-16|clang++-17|clang++-18|clang++-15|clang++  clang-16|clang
/usr/lib/llvm-*/lib/clang/*/lib/*/libclang_rt.fuzzer*  libclang-rt-16-dev|libclang-rt-dev'
# What a compiler's system is made with, and what it has: Debian 13 brings GCC 14 and Clang 19 (tools/dev/compilers.sh).
wants_compilers='
debootstrap  debootstrap
unshare      util-linux'
compilers_root_packages=g++,clang-19,cmake,ninja-build,python3,libcli11-dev,libfmt-dev,nlohmann-json3-dev,libzstd-dev,libmicrohttpd-dev,libcurl4-openssl-dev,libsqlite3-dev,zlib1g-dev,libdw-dev,libelf-dev,libiberty-dev,libgtest-dev
needs_tests='
<gtest/gtest.h>  libgtest-dev
git              git
readelf          binutils'
# A test whose program is missing says so and counts as skipped.
wants_tests='
go               golang-go
heaptrack_print  heaptrack
sqlite3     sqlite3
perl        perl
gdb         gdb
valgrind    valgrind
pkg-config  pkg-config|pkgconf
abidiff     abigail-tools
musl-gcc    musl-tools
spin        spin'
wants_long='
syspy:test.test_dict  libpython3.11-testsuite|libpython3.12-testsuite|libpython3.13-testsuite|libpython3-testsuite
redis-server          redis-server
redis-cli             redis-tools
nginx                 nginx-light
wrk                   wrk
curl                  curl
node                  nodejs
doxygen               doxygen
meson                 meson
javac                 default-jdk-headless
zsh                   zsh
fish                  fish
man                   man-db
groff                 groff
mandoc                mandoc
/usr/lib/postgresql/*/bin/initdb  postgresql
qemu-system-x86_64    qemu-system-x86
qemu-system-aarch64   qemu-system-arm
qemu-aarch64-static   qemu-user-static
aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
/usr/src/googletest   googletest'
# The documents as a site; MkDocs itself comes from PyPI (tools/site/requirements.txt).
needs_site='
python3          python3
py:ensurepip     python3-venv
doxygen          doxygen'
needs_bench='
<benchmark/benchmark.h>  libbenchmark-dev'
wants_malloc=$wants_peers'
syspy:sys        python3
py:matplotlib    python3-matplotlib
clang++-16|clang++-17|clang++-18|clang++-15|clang++  clang-16|clang
sqlite3          sqlite3
git              git
lua5.4|lua       lua5.4
gs               ghostscript
redis-server     redis-server
redis-benchmark  redis-tools
lib:libtbbmalloc_proxy.so.2  libtbbmalloc2'
wants_buffers=$wants_peers
# What tarn's typed pools are measured beside.
wants_pools=$wants_peers'
<boost/pool/object_pool.hpp>                                            libboost-dev
/usr/lib/*/libboost_container.so                                        libboost-container-dev
/usr/include/foonathan_memory/foonathan/memory/memory_pool.hpp          libfoonathan-memory-dev'
# What the profiler is measured with and beside.
wants_profiler='
sqlite3                                        sqlite3
/usr/lib/heaptrack/libheaptrack_preload.so     heaptrack'
wants_recyclers=$wants_peers

# The words of the C++ compiler into the caller's array compiler: what CXX names, which may have options behind it and, for
# the build, a launcher before it (CXX='ccache g++ -m64').
find_compiler() {
  compiler=("${CXX:-g++}")
  ! command -v "${compiler[0]}" >/dev/null 2>&1 || return 0 # a path, with blanks or without
  read -ra compiler <<<"${CXX:-g++}"
  case ${compiler[0]##*/} in
    ccache | sccache | distcc | icecc) compiler=("${compiler[@]:1}") ;;
  esac
}

is_there() {
  local choice name compiler
  find_compiler
  IFS='|' read -ra choice <<<"$1"
  for name in "${choice[@]}"; do
    case $name in
      '<'*) printf '#include %s\n' "$name" | "${compiler[@]}" -std=c++20 -E -x c++ - >/dev/null 2>&1 && return 0 ;;
      lib:*) /sbin/ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*${name#lib:}" && return 0 ;;
      py:*) python_with "${name#py:}" >/dev/null && return 0 ;;
      syspy:*) /usr/bin/python3 -c "import ${name#syspy:}" 2>/dev/null && return 0 ;;
      /*) compgen -G "$name" >/dev/null && return 0 ;;
      # Debian's servers are where only root's PATH leads.
      *) PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null 2>&1 && return 0 ;;
    esac
  done
  return 1
}

# python_with MODULE: the first python3 that has it: the user's own, or else the system's, which packages serve.
python_with() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c "import $1" 2>/dev/null; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

# missing_packages LIST: the packages of the list whose need is not there, each once.
missing_packages() {
  local probe package
  while read -r probe package; do
    [ -z "$probe" ] || is_there "$probe" || echo "$package"
  done <<<"$1" | awk '!seen[$0]++'
}

has_apt() {
  command -v apt-get >/dev/null 2>&1 && grep -qE '^(ID|ID_LIKE)=.*(debian|ubuntu)' /etc/os-release 2>/dev/null
}

# Its question would be lost among a step's output: become_root has asked it before.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# Whether apt-get may be run: by root, by a sudo that asks nothing or that has somebody to ask.
may_become_root() {
  [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

# become_root WHY: has sudo ask for the password, where it wants one.
become_root() {
  [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null || {
    echo "$1; sudo may ask for your password."
    sudo -v && sudo -n true
  }
}

# need LIST WANTED: installs what is missing of both. Without a package of LIST it gives up (status 2); what
# cannot be had of WANTED is named and done without.
need() {
  local needed wanted
  needed=$(missing_packages "$1")
  wanted=$(missing_packages "${2:-}")
  if [ -n "$needed$wanted" ] && has_apt && may_become_root; then
    apt_install "$needed" "$wanted"
    needed=$(missing_packages "$1")
    wanted=$(missing_packages "${2:-}")
  fi
  [ -z "$needed" ] || fail 2 "missing: $(first_names "$needed")" "$(how_to_install "$needed" "$wanted")"
  [ -z "$wanted" ] || echo "Not installed here, and done without (Debian's names): $(first_names "$wanted")"
}

# Of each line A|B|… the A, all in one line.
first_names() {
  sed 's/|.*//' <<<"$1" | paste -sd' '
}

# how_to_install NEEDED WANTED: what to do by hand.
how_to_install() {
  local all=()
  if has_apt; then
    apt_choose "$1" "$2"
    echo "Run this as root, then the same command again:"
    echo "    apt-get update && apt-get install --no-install-recommends ${all[*]}"
  else
    echo "These are Debian's names for what is missing. Install it as your system does, then run the same command again."
  fi
}

# apt_choose NEEDED WANTED: their packages into the caller's array all, of WANTED only those to be had here.
apt_choose() {
  local package
  all=()
  for package in $1; do all+=("$(apt_first "$package" || echo "${package%%|*}")"); done
  for package in $2; do
    package=$(apt_first "$package") && all+=("$package")
  done
}

apt_by_sudo='Packages are installed by sudo apt-get'
# apt_install NEEDED WANTED
apt_install() {
  local all=()
  if [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -print -quit 2>/dev/null)" ]; then
    become_root "$apt_by_sudo" || return
    apt_update
  fi
  apt_choose "$1" "$2"
  [ ${#all[@]} -gt 0 ] || return 0
  echo "Installing by apt-get: ${all[*]}"
  become_root "$apt_by_sudo" || return
  apt_cost "${all[@]}"
  # Once more with fresh lists: those of an older day name packages that are gone.
  apt_get_install "${all[@]}" || { apt_update && apt_get_install "${all[@]}"; } ||
    echo "apt-get could not install all of that; its messages are in build/log/apt.log"
}

# What that will take, in apt-get's words.
apt_cost() {
  as_root env LC_ALL=C apt-get --assume-no install --no-install-recommends "$@" 2>/dev/null |
    sed -nE 's/^(Need to get .*|After this operation, .*)$/  \1/p'
}

# Another apt-get, such as the one that runs by itself after a system's start, is waited for.
apt_get_install() {
  local packages="$# packages"
  [ $# -gt 1 ] || packages=$1
  step "Installing $packages" build/log/apt.log \
    as_root apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
}

apt_update() {
  step "Reading the package lists" build/log/apt-update.log as_root apt-get update
}

# apt_first PACKAGE|PACKAGE…: the first of them that apt-get can install.
apt_first() {
  local choice package
  IFS='|' read -ra choice <<<"$1"
  for package in "${choice[@]}"; do
    if apt-cache policy "$package" 2>/dev/null | grep -qE '^ +Candidate: [^(]'; then
      echo "$package"
      return 0
    fi
  done
  return 1
}
