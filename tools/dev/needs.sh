# SPDX-License-Identifier: MIT
# What the commands need, and how it gets there: by apt-get on Debian and Ubuntu; elsewhere what is missing is
# named. Sourced by ./dev.
# shellcheck shell=bash

# One need per line: how to see that it is there, and the Debian package that brings it. A word is a command,
# <…> a C++ header, lib:… a shared library, py:… a module of python3, pkg:… a package that leaves no such trace.
# Of several joined by | one is enough, the first that is to be had.
needs_build='
cmake                 cmake
ninja                 ninja-build
g++                   g++
python3               python3
<CLI/CLI.hpp>         libcli11-dev
<fmt/core.h>          libfmt-dev
<nlohmann/json.hpp>   nlohmann-json3-dev
<gtest/gtest.h>       libgtest-dev'
# Allocators to compare with.
wants_peers='
lib:libjemalloc.so.2            libjemalloc2
lib:libmimalloc.so.2            libmimalloc2.0
lib:libtcmalloc_minimal.so.4    libtcmalloc-minimal4
lib:libtbbmalloc_proxy.so.2     libtbbmalloc2'
needs_check='
git                                                                       git
clang-format-16|clang-format-17|clang-format-15|clang-format-14|clang-format  clang-format-16|clang-format
clang-tidy-16|clang-tidy-17|clang-tidy-18|clang-tidy-15|clang-tidy        clang-tidy-16|clang-tidy'
needs_test='
git       git
readelf   binutils'
# A test whose program is missing says so and counts as skipped.
wants_test='
sqlite3   sqlite3
perl      perl
gdb       gdb
valgrind  valgrind
pkg-config pkg-config
py:test.test_dict  libpython3-testsuite'
wants_long='
redis-server  redis-server
nginx         nginx-light
node          nodejs
java          default-jre-headless
psql          postgresql'
needs_bench='
<benchmark/benchmark.h>  libbenchmark-dev'
wants_bench='
py:matplotlib    python3-matplotlib
sqlite3          sqlite3
git              git
lua5.4|lua       lua5.4
gs               ghostscript
redis-server     redis-server
redis-benchmark  redis-tools'

is_there() {
  local choice name
  IFS='|' read -ra choice <<<"$1"
  for name in "${choice[@]}"; do
    case $name in
      '<'*) printf '#include %s\n' "$name" | "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null 2>&1 && return 0 ;;
      lib:*) /sbin/ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*${name#lib:}" && return 0 ;;
      py:*) python_with "${name#py:}" >/dev/null && return 0 ;;
      *) command -v "$name" >/dev/null 2>&1 && return 0 ;;
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

# missing_packages LIST: the packages of the list whose need is not there.
missing_packages() {
  local probe package
  while read -r probe package; do
    [ -z "$probe" ] || is_there "$probe" || echo "$package"
  done <<<"$1"
}

has_apt() {
  command -v apt-get >/dev/null 2>&1 && grep -qE '^(ID|ID_LIKE)=.*(debian|ubuntu)' /etc/os-release 2>/dev/null
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

# need LIST WANTED: installs what is missing of both. Without a package of LIST it gives up (status 2); one of
# WANTED that cannot be had is passed over.
need() {
  local needed wanted package
  needed=$(missing_packages "$1")
  wanted=$(missing_packages "${2:-}")
  if [ -n "$needed$wanted" ] && has_apt && { [ "$(id -u)" -eq 0 ] || can_sudo; }; then
    apt_install "$needed" "$wanted"
    needed=$(missing_packages "$1")
  fi
  [ -z "$needed" ] || fail 2 "missing: $(echo "$needed" | sed 's/|.*//' | paste -sd' ')" \
    "These are Debian's names for what is missing. Install it as your system does, then run the same command again."
}

# Where there is nobody to type a password, sudo must do without.
can_sudo() {
  command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}

# apt_install NEEDED WANTED
apt_install() {
  local log=build/log/apt.log package all=()
  if [ -z "$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -print -quit 2>/dev/null)" ]; then
    step "Reading the package lists" "$log" as_root apt-get update || fail 2 "apt-get update failed" \
      "Check the network and /etc/apt/sources.list, then run the same command again."
  fi
  for package in $1; do all+=("$(apt_first "$package" || echo "${package%%|*}")"); done
  for package in $2; do
    if apt_first "$package" >/dev/null; then all+=("$package"); fi
  done
  [ ${#all[@]} -gt 0 ] || return 0
  echo "Installing by apt-get: ${all[*]}"
  step "Installing ${#all[@]} packages" "$log" as_root apt-get install -y --no-install-recommends "${all[@]}" ||
    fail 2 "apt-get could not install ${all[*]}" \
      "Try 'apt-get update' first, or install them by hand; then run the same command again."
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
