#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# nghttpd, nghttpx and nghttp of nghttp2 run unchanged on libtarn-jemalloc: files come through server and proxy without a
# wrong byte while a load generator asks for them.
. "$(dirname "$0")/jemalloc_common.sh"
need nghttpd nghttp2-server
need nghttpx nghttp2-proxy
need nghttp nghttp2-client
need h2load nghttp2-client
asks_for_jemalloc nghttpd

requests=3000
[ "$long" = 1 ] && requests=20000
mkdir -p site
for size in 0 1 700 70000 2000000; do head -c $size /dev/zero | tr '\0' 'a' | sed 's/a\{61\}/&\n/g' >site/$size.txt; done
port=$((22000 + (RANDOM % 20000)))
get() { as_jemalloc nghttp "http://127.0.0.1:$1/$2.txt"; }
answers() { get "$1" 700 | cmp -s - site/700.txt; }
env LD_LIBRARY_PATH="$work/link" nghttpd --no-tls -n 2 -d "$work/site" $port >server.log 2>&1 &
server=$!
note_process $server
env LD_LIBRARY_PATH="$work/link" nghttpx -n 2 --conf=/dev/null -f "127.0.0.1,$((port + 1));no-tls" \
  -b "127.0.0.1,$port;;proto=h2" --errorlog-file="$work/proxy.log" >/dev/null 2>&1 &
proxy=$!
note_process $proxy
wait_until 20 answers $port || fail "nghttpd does not answer: $(tail -n 1 server.log)"
wait_until 20 answers $((port + 1)) || fail "nghttpx does not answer: $(tail -n 1 proxy.log)"
require_only_tarn $server
for pid in $proxy $(cat "/proc/$proxy/task/$proxy/children"); do require_only_tarn "$pid"; done
as_jemalloc h2load -n $requests -c 10 -m 10 "http://127.0.0.1:$((port + 1))/70000.txt" >load.txt 2>&1 &
load=$!
for round in 1 2 3; do
  for size in 0 1 700 70000 2000000; do
    for at in $port $((port + 1)); do
      get $at $size >got.txt || fail "no $size.txt from port $at"
      cmp -s got.txt site/$size.txt || fail "$size.txt differs in round $round"
    done
  done
done
wait $load || fail "h2load failed: $(tail -n 1 load.txt)"
grep -q "$requests succeeded, 0 failed" load.txt || fail "requests failed: $(grep succeeded load.txt)"
same "nghttp2: $requests requests through proxy and server, files without a wrong byte"
