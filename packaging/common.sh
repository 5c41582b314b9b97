# SPDX-License-Identifier: MIT
# What the scripts make_artefact and check_artefact of packaging/ share. Sourced by them.
# shellcheck shell=bash
#   make_artefact OUTDIR    builds the folder's artefact from a copy of the sources, into OUTDIR
#   check_artefact OUTDIR   installs it into an empty place, tries it, removes it, and shows that nothing remains
# Exit status: 0, 1 for a failure (one line says what), 2 for wrong usage, 77 if a tool is missing (the last line names it).
# Both work in the temporary folder $work, which is removed at the end.
set -euo pipefail
export LC_ALL=C TZ=UTC
umask 022
unset LD_PRELOAD CPPFLAGS CFLAGS CXXFLAGS LDFLAGS # of this user; they would be in what is made

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
own_folder=$(cd "$(dirname "$0")" && pwd)
what=${own_folder##*/}

fail() { echo "$what: $*" >&2; exit 1; }
skip() { echo "cannot run here: $what: $*"; exit 77; }

# need COMMAND HOW-TO-GET-IT
need() { command -v "$1" >/dev/null 2>&1 || skip "no $1: $2"; }

[ $# -eq 1 ] || { echo "usage: $0 OUTDIR" >&2; exit 2; }
mkdir -p "$1"
outdir=$(cd "$1" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tarn-$what.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# Most of the time goes into compiling the command. A compiler cache, if there is one, finds what it has compiled before
# although each build has a folder of its own.
export TMPDIR=$work CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
if command -v ccache >/dev/null 2>&1; then
  export CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER-ccache}
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
fi

# The version of the project, which all packages have.
version=$(sed -nE 's/^project\(tarn VERSION ([0-9.]+).*/\1/p' "$repository/CMakeLists.txt")
# The moment of the last commit, so that the same source gives the same files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$repository" log -1 --format=%ct 2>/dev/null ||
  stat -c %Y "$repository/CMakeLists.txt")}
export SOURCE_DATE_EPOCH

# All that the libraries and the command are built from.
build_sources=(CMakeLists.txt LICENSE README.md cmake src include cli profiler)

# What tar stores besides names and contents, so that the same files give the same archive.
same_bits=(--sort=name "--mtime=@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX)

# copy_sources DESTINATION PATH…: copies these folders and files of the project, without what git ignores. Outside of
# git, as in an unpacked source archive, everything but the folder build is copied.
copy_sources() {
  local destination=$1
  shift
  mkdir -p "$destination"
  if git -C "$repository" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git -C "$repository" ls-files --cached --others --exclude-standard -z -- "$@" |
      (cd "$repository" && while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done) |
      tar -C "$repository" --null --no-recursion "${same_bits[@]}" -cf - -T - | tar -C "$destination" -xf -
  else
    tar -C "$repository" --exclude=__pycache__ --exclude=./build "${same_bits[@]}" -cf - "$@" | tar -C "$destination" -xf -
  fi
}

# pack FOLDER ARCHIVE: FOLDER's last component is the name inside.
pack() {
  tar -C "$(dirname "$1")" "${same_bits[@]}" -cf - "$(basename "$1")" | gzip -9n >"$2"
}

# quietly LOG COMMAND…: runs the command with its output in $work/LOG, and shows the end of it after a failure.
quietly() {
  local log=$work/$1
  shift
  "$@" >"$log" 2>&1 </dev/null || { tail -n 60 "$log" >&2; fail "failed: $*"; }
}

# listing FOLDER: all files in it, sorted, to compare before and after.
listing() { (cd "$1" && find . | sort); }
