#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# redis-server, which Debian links with jemalloc, runs unchanged on libtarn-jemalloc: the same data, statistics that make
# sense, memory that is given back on request, and the same answer about active defragmentation. By the link, by
# LD_PRELOAD, and by both.
. "$(dirname "$0")/jemalloc_common.sh"
need redis-server redis-server
need redis-cli redis-tools
need redis-benchmark redis-tools
asks_for_jemalloc redis-server

keys=20000
[ "$long" = 1 ] && keys=100000
ask() { timeout 60 redis-cli -s "$work/socket" "$@" 2>/dev/null; }
ready() { [ "$(ask ping)" = PONG ]; }
start_server() { # jemalloc|link|preload|both
  local way=(env)
  case $1 in
    link) way+=("LD_LIBRARY_PATH=$work/link") ;;
    preload) way+=("LD_PRELOAD=$TARN_LIB") ;;
    both) way+=("LD_LIBRARY_PATH=$work/link" "LD_PRELOAD=$TARN_LIB") ;;
  esac
  rm -f "$work/dump.rdb"
  "${way[@]}" redis-server --port 0 --unixsocket "$work/socket" --dir "$work" --save '' --appendonly no \
    --enable-debug-command yes --daemonize no --logfile "$work/log.$1" &
  server=$!
  note_process $server
  wait_until 60 ready || { tail -n 5 "$work/log.$1" >&2; fail "redis-server does not answer ($1)"; }
}
stop_server() {
  ask shutdown nosave >/dev/null
  wait $server || fail "redis-server ended with status $?"
}
field() { ask info memory | tr -d '\r' | sed -n "s/^$1://p"; }

awk -v keys=$keys 'BEGIN {
  for (i = 0; i < 300; ++i) filler = filler "0123456789"
  for (i = 1; i <= keys; ++i) {
    put("SET s" i " v" substr(filler, 1, (i * 7919) % 3000))
    if (i % 3 == 0) put("HSET h" i % 500 " f" i " v" i)
    if (i % 4 != 0) put("DEL s" int(i / 2))
  }
}
function put(text, n, part, j) {
  n = split(text, part, " ")
  printf "*%d\r\n", n
  for (j = 1; j <= n; ++j) printf "$%d\r\n%s\r\n", length(part[j]), part[j]
}' >load.resp

for way in jemalloc link preload both; do
  start_server $way
  redis-cli -s socket --pipe <load.resp >load.txt 2>&1 || fail "the data cannot be loaded ($way)"
  ask debug digest >"$way.digest"
  ask config set activedefrag yes >"$way.defrag" 2>&1
  case $way in
    link | both) require_only_tarn $server ;;
    preload) require_mapped $server ;;
  esac
  if [ $way != jemalloc ]; then
    compare "digest ($way)" jemalloc.digest "$way.digest"
    compare "answer about active defragmentation ($way)" jemalloc.defrag "$way.defrag"
    ask memory malloc-stats >stats.txt
    grep -q '5.3.0-0-gtarn' stats.txt || fail "memory malloc-stats is not tarn's ($way): $(head -3 stats.txt)"
    # What redis reads by mallctl, ten times a second.
    sleep 0.5
    used=$(field used_memory) allocated=$(field allocator_allocated) active=$(field allocator_active) resident=$(field allocator_resident)
    { [ "$allocated" -ge $((used / 2)) ] && [ "$allocated" -le $((used * 2)) ] && [ "$active" -ge "$allocated" ] &&
      [ "$resident" -ge "$active" ]; } || fail "figures ($way): used $used, allocated $allocated, active $active, resident $resident"
    ask debug populate 100000 big 1000 >/dev/null
    ask flushall sync >/dev/null
    [ "$(ask memory purge)" = OK ] || fail "memory purge ($way): $(ask memory purge)"
    small() { [ "$(field used_memory_rss)" -lt 60000000 ]; }
    wait_until 10 small || fail "memory that was purged is still resident ($way): $(field used_memory_rss) bytes"
    [ "$(ask config set jemalloc-bg-thread no)" = OK ] || fail "jemalloc-bg-thread no ($way)"
    [ "$(ask config set jemalloc-bg-thread yes)" = OK ] || fail "jemalloc-bg-thread yes ($way)"
    redis-benchmark -s socket -q -n 20000 -c 20 -P 8 -r 5000 -d 200 -t set,get,lpush,hset,zadd >benchmark.txt 2>&1 ||
      fail "redis-benchmark ($way): $(tail -n 1 benchmark.txt)"
    ask bgsave >/dev/null
    saved() { ask info persistence | tr -d '\r' | grep -q '^rdb_bgsave_in_progress:0'; }
    wait_until 60 saved || fail "a background save does not end ($way)"
    ask info persistence | grep -q '^rdb_last_bgsave_status:ok' || fail "a background save failed ($way)"
  fi
  stop_server
done
same "redis on $(basename "$TARN_LIB") by link, preload and both: digests, statistics, purge, saves"
