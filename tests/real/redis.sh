#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# redis: the data set has the same digest (redis's own) as without tarn. Background saves succeed while a load changes
# other keys, and the digests of the keys that it does not change stay the same. The data set has the same digest after
# a restart.
. "$(dirname "$0")/common.sh"
need redis-server redis-server
need redis-cli redis-tools
need redis-benchmark redis-tools

keys=20000 requests=60000 saves=3
[ "$long" = 1 ] && keys=400000 requests=3000000 saves=20
ask() { timeout 120 redis-cli -s "$work/socket" "$@" 2>/dev/null; }

# While the server loads a file, it answers to ping, but not with PONG.
ready() { [ "$(ask ping)" = PONG ]; }
start_server() { # WITH|WITHOUT FOLDER
  local preload=
  [ "$1" = with ] && preload=$TARN_LIB
  mkdir -p "$2"
  env LD_PRELOAD="$preload" redis-server --port 0 --unixsocket "$work/socket" --dir "$work/$2" --save '' \
    --appendonly no --enable-debug-command yes --daemonize no --logfile "$work/$2/log" &
  server=$!
  note_process $server
  wait_until 60 ready || { tail -n 5 "$2/log" >&2; fail "redis-server does not answer ($1 tarn)"; }
  [ "$1" = without ] || require_mapped $server
}
stop_server() {
  ask shutdown "$@" >/dev/null
  wait $server || fail "redis-server ended with status $?"
}
saved() { ask info persistence | tr -d '\r' | grep -q '^rdb_bgsave_in_progress:0'; }

# Commands for strings, hashes, lists and sorted sets of many sizes, in redis's protocol.
awk -v keys=$keys 'BEGIN {
  for (i = 0; i < 300; ++i) filler = filler "0123456789"
  for (i = 1; i <= keys; ++i) {
    value = substr(filler, 1, (i * 7919) % 3000)
    if (i % 4 == 0) put("SET s" i " v" value)
    else if (i % 4 == 1) put("HSET h" i % 500 " f" i " v" value)
    else if (i % 4 == 2) put("RPUSH l" i % 300 " v" value)
    else put("ZADD z" i % 200 " " i " m" i)
    if (i % 9 == 0) put("DEL s" int(i / 2))
  }
}
function put(text, n, part, j) {
  n = split(text, part, " ")
  printf "*%d\r\n", n
  for (j = 1; j <= n; ++j) printf "$%d\r\n%s\r\n", length(part[j]), part[j]
}' >load.resp

for way in without with; do
  start_server $way $way.dir
  redis-cli -s socket --pipe <load.resp >load.txt 2>&1 || fail "the data cannot be loaded $way tarn"
  ask debug digest >$way.digest
  [ $way = with ] || stop_server nosave
done
compare "digest of $keys commands" without.digest with.digest

# Keys that the load does not change.
kept=()
for ((i = 4; i <= 4000; i += 4)); do kept+=("s$i" "h$((i % 500))" "l$((i % 300))" "z$((i % 200))"); done
ask debug digest-value "${kept[@]}" >kept.before
redis-benchmark -s socket -q -n $requests -c 20 -P 8 -r 5000 -d 200 \
  -t set,get,incr,lpush,lpop,sadd,hset,zadd,mset >benchmark.txt 2>&1 &
benchmark=$!
note_process $benchmark
for ((i = 0; i < saves; ++i)); do
  ask bgsave >/dev/null
  wait_until 120 saved || fail "a background save does not end"
  [ "$(ask info persistence | tr -d '\r' | grep -c '^rdb_last_bgsave_status:ok')" = 1 ] || fail "a background save failed"
done
wait $benchmark || fail "redis-benchmark failed: $(tail -n 1 benchmark.txt)"
ask debug digest-value "${kept[@]}" >kept.after
compare "digests of ${#kept[@]} keys that the load left alone" kept.before kept.after
ask debug digest >loaded.digest
ask save >/dev/null
stop_server nosave
start_server with with.dir
ask debug digest >reloaded.digest
compare "digest of the reloaded file" loaded.digest reloaded.digest
stop_server nosave
same "redis: $keys commands, $saves background saves under load, reload"
