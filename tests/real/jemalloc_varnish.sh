#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# varnishd, which Debian links with jemalloc, runs unchanged on libtarn-jemalloc: a cache smaller than the site gives every
# file without a wrong byte, from memory and from its server, while it throws objects out.
. "$(dirname "$0")/jemalloc_common.sh"
export PATH=$PATH:/usr/sbin
need varnishd varnish
need varnishadm varnish
need curl curl
need python3 python3
need gcc gcc
asks_for_jemalloc varnishd

files=150 rounds=3
[ "$long" = 1 ] && files=500 rounds=5
mkdir -p site state
for ((i = 0; i < files; ++i)); do
  head -c $((1 + i * 7919 % 120000)) /dev/zero | tr '\0' "$(printf "\\$(printf %o $((97 + i % 26)))")" >site/$i
done
port=$((23000 + (RANDOM % 20000)))
(cd site && exec python3 -m http.server --bind 127.0.0.1 $port >/dev/null 2>&1) &
note_process $!
printf 'vcl 4.1;\nbackend site { .host = "127.0.0.1"; .port = "%s"; }\n' $port >site.vcl
env LD_LIBRARY_PATH="$work/link" varnishd -F -n "$work/state" -a 127.0.0.1:$((port + 1)) -f "$work/site.vcl" -s malloc,2M \
  -j none >varnish.log 2>&1 &
server=$!
note_process $server
answers() { curl -sf -o /dev/null "http://127.0.0.1:$((port + 1))/0"; }
wait_until 60 answers || fail "varnishd does not answer: $(tail -n 2 varnish.log)"
for pid in $server $(cat "/proc/$server/task/$server/children"); do require_only_tarn "$pid"; done
for ((round = 0; round < rounds; ++round)); do
  for ((i = 0; i < files; ++i)); do echo "url = \"http://127.0.0.1:$((port + 1))/$i\""; echo "output = \"got/$i\""; done >urls
  rm -rf got
  mkdir got
  curl -sf --parallel --parallel-max 8 -K urls 2>/dev/null || fail "a request failed in round $round"
  diff -rq site got >different.txt || fail "a file differs in round $round: $(head -1 different.txt)"
done
removed=$(as_jemalloc varnishstat -n "$work/state" -1 -f MAIN.n_lru_nuked 2>/dev/null | awk '{ print $2 }')
panics=$(as_jemalloc varnishadm -n "$work/state" panic.show 2>&1)
case $panics in *"has not panicked"*) ;; *) fail "the cache has panicked: $panics" ;; esac
same "varnish: $((files * rounds)) files without a wrong byte, ${removed:-unknown} objects thrown out"
