# SPDX-License-Identifier: MIT
# ./dev install and ./dev uninstall. Sourced by ./dev.
# shellcheck shell=bash

own_folder='Without root, install into a folder of your own: ./dev install --prefix ~/.local'

dev_install() {
  local prefix as=() stage=build/install libraries
  install_prefix install "$@"
  need "$needs_build" "$wants_build"
  build_release_products || fail 1 "the release build failed" "Read the messages above; ./dev install repeats it."
  rm -rf "$stage"
  step "Gathering what is installed" build/log/install.log gather_installation "$stage" ||
    fail 1 "nothing was installed" "Read the messages above."
  place_files "$own_folder" put "$stage" "$prefix" ||
    fail 1 "the installation into $prefix is not complete" "Read the message above; ./dev install$(prefix_option) repeats it."
  printf 'Installed in %s: %s. Next: tarn profile -- PROGRAM. ./dev uninstall%s removes it.\n' "$prefix" "$(du -sh "$stage" | cut -f 1)" "$(prefix_option)"
  libraries=$prefix/$(basename "$stage"/lib*)
  installation_advice
}

dev_uninstall() {
  local prefix as=()
  install_prefix uninstall "$@"
  [ -e "$prefix/share/tarn/installed.txt" ] || fail 2 "./dev install has put nothing into $prefix" \
    "--prefix FOLDER names another folder. What 'cmake --install' put there is in install_manifest.txt of its build folder."
  place_files "Run it as root." remove "$prefix" ||
    fail 1 "not all was removed from $prefix" "Read the message above; ./dev uninstall$(prefix_option) repeats it."
  local key=${XDG_STATE_HOME:-~/.local/state}/tarn/key
  echo "Removed from $prefix.$([ ! -e "$key" ] || echo " What remains is yours: profiles, and $key, by which tarn knows your own.")"
}

# install_prefix COMMAND ARG…: the folder into the caller's prefix, and into its array as what must stand before a command
# that writes there.
install_prefix() {
  local command=$1
  shift
  case "$#:${1:-}" in
    0:) prefix=/usr/local ;;
    2:--prefix) prefix=$2 ;;
    1:--prefix=*) prefix=${1#*=} ;;
    *) fail_usage "$command takes --prefix FOLDER or nothing, not '$*'" ;;
  esac
  [ -n "$prefix" ] || fail_usage "--prefix names no folder"
  prefix=$(cd "$called_from" && realpath -ms -- "$prefix")
  case $prefix in
    *[[:space:]:\$]*) fail 2 "tarn cannot lie in '$prefix': LD_PRELOAD cannot express blanks, ':' and '\$'" "Choose another folder." ;;
  esac
  [ -d "$prefix" ] || [ ! -e "$prefix" ] || fail 2 "$prefix is no folder" "Choose another one."
  may_write || as=(as_root)
  [ ${#as[@]} -eq 0 ] || may_become_root || fail 2 "this user may not write into $prefix" "$own_folder"
}

# Whether this user may write into the prefix and its folders, or make them.
may_write() {
  local folder
  for folder in "$prefix" "$prefix"/{bin,include,lib,share}; do
    until [ -e "$folder" ]; do folder=$(dirname "$folder"); done
    [ -w "$folder" ] || return 1
  done
}

# place_files ADVICE ARG…: runs place_files.sh; ADVICE is for those whose sudo refuses. Where root has written, the loader
# learns of it.
place_files() {
  local advice=$1
  shift
  [ ${#as[@]} -eq 0 ] || become_root "Only root may write into $prefix" || fail 2 "sudo has refused" "$advice"
  "${as[@]}" sh tools/dev/place_files.sh "$@" || return 1
  [ "$(id -u)" -ne 0 ] && [ ${#as[@]} -eq 0 ] || as_root /sbin/ldconfig
}

prefix_option() {
  [ "$prefix" = /usr/local ] || echo " --prefix $prefix"
}

# With the folder of the list that place_files.sh keeps.
gather_installation() {
  mkdir -p "$1/share/tarn" &&
    cmake --install build/release --prefix "$PWD/$1" --strip && strip --strip-debug "$1"/lib*/*.a
}

# What this user's shell lacks to find all of it. CMake finds what lies beside a folder of PATH.
installation_advice() {
  local lines=() other
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) lines+=("export PATH=$prefix/bin:\$PATH  # the command, its manual, find_package(tarn)") ;;
  esac
  if command -v pkg-config >/dev/null 2>&1 && ! [ "$(pkg-config --variable=libdir tarn 2>/dev/null)" -ef "$libraries" ]; then
    lines+=("export PKG_CONFIG_PATH=$libraries/pkgconfig${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}  # \$(pkg-config --cflags --libs tarn)")
  fi
  if ! /sbin/ldconfig -p 2>/dev/null | grep -qF " => $libraries/libtarn.so.1"; then
    case ":${LD_LIBRARY_PATH:-}:" in
      *":$libraries:"*) ;;
      *) lines+=("export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}  # LD_PRELOAD=libtarn.so.1, and programs linked with tarn") ;;
    esac
  fi
  case $prefix:${CPATH:-}:${LIBRARY_PATH:-}: in
    /usr:* | /usr/local:* | *":$prefix/include:"*":$libraries:"*) ;;
    *) lines+=("export CPATH=$prefix/include${CPATH:+:\$CPATH} LIBRARY_PATH=$libraries${LIBRARY_PATH:+:\$LIBRARY_PATH}  # c++ my.cpp -ltarn-api") ;;
  esac
  [ ${#lines[@]} -eq 0 ] || printf '%s\n' "Put into ~/.profile what you use of it, and into this shell:" "${lines[@]/#/    }"
  other=$(PATH=$PATH:$prefix/bin command -v tarn)
  [ "$other" -ef "$prefix/bin/tarn" ] || echo "Another tarn comes first in PATH: $other"
}
