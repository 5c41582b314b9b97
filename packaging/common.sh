# SPDX-License-Identifier: MIT
# What the makers of artefacts share. Sourced by packaging/*/make_artefact, from the repository's root.
# shellcheck shell=bash

tarn_version=$(sed -nE 's/^project\(tarn VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
# The moment of the last commit, so that the same source gives the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}
export SOURCE_DATE_EPOCH

# lacking WHAT: ends the maker with status 77: this artefact cannot be made here.
lacking() {
  echo "missing: $*"
  exit 77
}

# Each word is a command, or a file.
require() {
  local each
  for each in "$@"; do
    [ -e "$each" ] || command -v "$each" >/dev/null 2>&1 || lacking "$each"
  done
}

# The names of the project's files, each with a null byte at its end: those that git knows, or all of an unpacked source
# archive.
source_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
      [ ! -e "$file" ] || printf '%s\0' "$file"
    done
  else
    find . -path ./build -prune -o \( -type f -o -type l \) -print0 | sed -z 's,^\./,,'
  fi
}

# stage_source FOLDER: a copy of the project's files.
stage_source() {
  rm -rf "$1"
  mkdir -p "$1"
  source_files | tar -c --null -T - | tar -x -C "$1"
}

# pack FOLDER ARCHIVE: FOLDER's last component is the name inside.
pack() {
  tar -c -C "$(dirname "$1")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    "$(basename "$1")" | gzip -9n >"$2"
}
