#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# nginx: while a load generator runs and the configuration is reloaded, every response is a success; afterwards the
# files are served without a wrong byte.
. "$(dirname "$0")/common.sh"
export PATH=$PATH:/usr/sbin
need nginx nginx-light
need wrk wrk
need curl curl

duration=3 reloads=2 connections=30
[ "$long" = 1 ] && duration=60 reloads=20
mkdir -p site tmp
for size in 0 1 700 5000 70000 2000000; do
  head -c $size /dev/zero | tr '\0' 'a' | sed 's/a\{61\}/&\n/g' >site/$size.txt
done
cat >nginx.conf <<CONF
daemon off;
master_process on;
worker_processes 2;
pid $work/pid;
error_log $work/error.log warn;
$([ "$(id -u)" = 0 ] && echo "user root;")
events { worker_connections 512; }
http {
  access_log off;
  types { text/plain txt; }
  gzip on; gzip_types text/plain; gzip_min_length 100;
  client_body_temp_path $work/tmp; proxy_temp_path $work/tmp; fastcgi_temp_path $work/tmp;
  uwsgi_temp_path $work/tmp; scgi_temp_path $work/tmp;
  server { listen 127.0.0.1:PORT; root $work/site; }
  server { listen 127.0.0.1:NEXT; location / { proxy_pass http://127.0.0.1:PORT; proxy_buffers 8 8k; } }
}
CONF
# Two ports on which nobody listens; tries others if nginx does not start with these.
listening() { awk 'NR > 1 { split($2, part, ":"); print part[2] }' /proc/net/tcp | grep -q "^$(printf %04X "$1")\$"; }
answers() { curl -sf -o /dev/null "http://127.0.0.1:$1/700.txt"; }
for ((try = 0; try < 5; ++try)); do
  port=$((20000 + (RANDOM % 20000)))
  listening $port || listening $((port + 1)) && continue
  sed "s/PORT/$port/; s/NEXT/$((port + 1))/" nginx.conf | sed "s/:PORT/:$port/" >used.conf
  env LD_PRELOAD="$TARN_LIB" nginx -p "$work" -c "$work/used.conf" 2>start.txt &
  master=$!
  note_process $master
  wait_until 10 answers $((port + 1)) && break
  kill -0 $master 2>/dev/null && end_process $master
  master=
done
[ -n "$master" ] || fail "nginx does not start: $(tail -n 1 start.txt)"
workers() { cat "/proc/$master/task/$master/children"; }
for pid in $master $(workers); do require_mapped "$pid"; done

load() { # ENCODING PORT SIZE
  wrk -t 1 -c $connections -d ${duration}s --timeout 10s -H "Accept-Encoding: $1" "http://127.0.0.1:$2/$3.txt" \
    >"load-$3.txt" 2>&1
}
load gzip $((port + 1)) 70000 &
first=$!
load identity $port 5000 &
second=$!
note_process $first
note_process $second
for ((i = 0; i < reloads; ++i)); do
  sleep 1
  kill -HUP $master || fail "nginx died under load"
done
wait $first || fail "wrk failed: $(tail -n 1 load-70000.txt)"
wait $second || fail "wrk failed: $(tail -n 1 load-5000.txt)"
for size in 5000 70000; do
  grep -q 'Non-2xx' load-$size.txt && fail "under load: $(grep Non-2xx load-$size.txt)"
  grep -q 'requests in' load-$size.txt || fail "no request was answered for $size.txt"
  errors=$(sed -n 's/^ *Socket errors: connect \([0-9]*\), read \([0-9]*\), write \([0-9]*\), timeout \([0-9]*\)$/\1 \2 \3 \4/p' load-$size.txt)
  read -r connect read write timeout <<<"${errors:-0 0 0 0}"
  # A reload closes the connections of the old workers, which wrk counts as errors.
  [ "$connect" = 0 ] && [ "$timeout" = 0 ] && [ $((read + write)) -le $((connections * reloads)) ] ||
    fail "under load: $(grep 'Socket errors' load-$size.txt)"
done
for size in 1 700 5000 70000 2000000; do
  for at in $port $((port + 1)); do
    curl -sf --compressed "http://127.0.0.1:$at/$size.txt" | cmp -s - site/$size.txt ||
      fail "$size.txt differs through port $at"
  done
done
grep -E 'exited on signal|\[(alert|emerg|crit)\]' error.log >&2 && fail "nginx reports trouble"
end_process $master QUIT
same "nginx: $(awk '/requests in/ { n += $1 } END { print n }' load-*.txt) requests, $reloads reloads, files whole"
