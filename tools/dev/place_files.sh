#!/bin/sh
# SPDX-License-Identifier: MIT
# What ./dev install and ./dev uninstall do in a prefix, as root where it belongs to root.
# Usage: place_files.sh put STAGE PREFIX     the files of the folder STAGE into PREFIX; what an earlier installation had and this
#                                            one lacks goes
#        place_files.sh remove PREFIX        all that was put there, and no file of anybody else
# PREFIX/share/tarn/installed.txt lists the files, and with a slash behind them the folders that were made for them.
set -eu
umask 022
export LC_ALL=C
list=share/tarn/installed.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# By a rename: a program that runs keeps the library that it has mapped, and none starts while there is none.
put_file() {
  mkdir -p "$(dirname "$2")"
  cp -P --preserve=mode,timestamps "$1" "$2.new" && mv -fT "$2.new" "$2" || { rm -f "$2.new"; exit 1; }
}

# The lines of standard input that are files go; the list could lie, but not lead out of PREFIX.
remove_files() {
  while IFS= read -r file; do
    case $file in */ | *..*) ;; *) rm -f "$prefix/$file" ;; esac
  done
}

put() {
  stage=$1 prefix=$2
  sort -u "$prefix/$list" >"$work/old" 2>/dev/null || :
  (cd "$stage" && { find . ! -type d -printf '%P\n'; echo "$list"; } | sort -u) >"$work/files"
  (cd "$stage" && find . -type d -printf '%P/\n') | sort | while IFS= read -r folder; do
    if [ ! -d "$prefix/$folder" ] || grep -qxF "$folder" "$work/old"; then echo "$folder"; fi
  done | cat "$work/files" - >"$work/new"
  # First the list of all that may be there, so that what is interrupted can be removed.
  sort -u "$work/old" "$work/new" >"$work/both"
  put_file "$work/both" "$prefix/$list"
  grep -vxF "$list" "$work/files" | while IFS= read -r file; do put_file "$stage/$file" "$prefix/$file"; done
  comm -13 "$work/files" "$work/old" | remove_files
  put_file "$work/new" "$prefix/$list"
}

remove() {
  prefix=$1
  sort -r "$prefix/$list" >"$work/old"
  grep -vxF "$list" "$work/old" | remove_files
  grep '/$' "$work/old" >"$work/folders" || :
  rm -f "$prefix/$list"
  while IFS= read -r folder; do # the innermost first
    case $folder in *..*) ;; *) rmdir --ignore-fail-on-non-empty "$prefix/$folder" 2>/dev/null || : ;; esac
  done <"$work/folders"
}

command=$1
shift
"$command" "$@"
