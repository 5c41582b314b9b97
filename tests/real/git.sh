#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# git: repack with one thread gives the same pack bit for bit, with four threads the same objects; fsck succeeds.
. "$(dirname "$0")/common.sh"
need git git

export HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
commits=60
[ "$long" = 1 ] && commits=1000
# A stream for fast-import: 40 files of numbered lines; each commit changes two of the files.
awk -v commits=$commits 'BEGIN {
  for (c = 1; c <= commits; ++c) {
    printf "commit refs/heads/main\ncommitter a <a@example.org> %d +0000\ndata 2\nc\n", 1700000000 + c
    for (f = (c == 1 ? 0 : c % 40); f < (c == 1 ? 40 : c % 40 + 2); ++f) {
      text = ""
      for (l = 0; l < 400; ++l)
        text = text sprintf("file %d line %d value %d\n", f, l, (l * 7919 + f + (l % 37 == c % 37 ? c : 0)) % 10007)
      printf "M 100644 inline file-%d.txt\ndata %d\n%s\n", f, length(text), text
    }
  }
}' >stream
git init -q --bare origin.git && git -C origin.git fast-import --quiet <stream || fail "cannot make a repository"
for way in without with; do
  cp -r origin.git $way.git
  $way 600 git -C $way.git -c pack.threads=1 repack -q -a -d -f --depth=50 --window=30 ||
    fail "git repack fails $way tarn (status $?)"
  sha256sum <"$(echo $way.git/objects/pack/*.pack)" >$way.pack
  $way 600 git -C $way.git -c pack.threads=4 repack -q -a -d -f || fail "git repack with threads fails $way tarn"
  $way 600 git -C $way.git fsck --full --strict >$way.fsck 2>&1 || fail "git fsck fails $way tarn"
  $way 600 git -C $way.git rev-list --objects --all >$way.objects || fail "git rev-list fails $way tarn"
  $way 600 git -C $way.git log -p --stat refs/heads/main >$way.log || fail "git log fails $way tarn"
done
require_loaded git
compare "pack" without.pack with.pack
cmp -s without.fsck with.fsck || fail "fsck differs with tarn"
compare "object list" without.objects with.objects
compare "log" without.log with.log
same "git repack, fsck and log of $commits commits"
