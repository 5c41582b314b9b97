#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# named and dig of BIND 9, which call jemalloc's functions with flags, run unchanged on libtarn-jemalloc: every answer about
# a zone is the same as on jemalloc, also after the zone was transferred and reloaded.
. "$(dirname "$0")/jemalloc_common.sh"
export PATH=$PATH:/usr/sbin
need named bind9
need dig bind9-dnsutils
need rndc bind9-utils
need rndc-confgen bind9
asks_for_jemalloc named

hosts=3000 queries=400
[ "$long" = 1 ] && hosts=30000 queries=1500
port=$((21000 + (RANDOM % 20000)))
{
  echo '$TTL 300'
  echo '@ IN SOA ns.example.test. root.example.test. 1 3600 600 86400 300'
  echo '@ IN NS ns'
  echo 'ns IN A 127.0.0.1'
  for ((i = 0; i < hosts; ++i)); do
    echo "h$i IN A 10.$((i / 65536 % 256)).$((i / 256 % 256)).$((i % 256))"
    [ $((i % 7)) = 0 ] && printf 't%d IN TXT "%0*d"\n' $i $((i % 200 + 1)) $i
  done
} >zone.db
rndc-confgen -a -c "$work/key" -k testkey >/dev/null 2>&1 || skip "rndc-confgen does not run"
cat >named.conf <<CONF
include "$work/key";
controls { inet 127.0.0.1 port $((port + 1)) allow { 127.0.0.1; } keys { "testkey"; }; };
options { directory "$work"; pid-file "$work/pid"; listen-on port $port { 127.0.0.1; }; listen-on-v6 { none; };
  session-keyfile "$work/session"; managed-keys-directory "$work"; recursion no; dnssec-validation no; allow-transfer { any; }; };
zone "example.test" { type primary; file "$work/zone.db"; };
CONF
: >questions
for ((i = 0; i < queries; ++i)); do
  n=$((i * 7919 % hosts))
  echo "h$n.example.test A" >>questions
  echo "t$((n - n % 7)).example.test TXT" >>questions
  echo "nobody$i.example.test A" >>questions
done
dig_all() { "$@" dig @127.0.0.1 -p $port +noall +answer +authority +tries=10 +time=10 -f questions; }
answers() { "$@" dig @127.0.0.1 -p $port +short ns.example.test A 2>/dev/null | grep -q 127.0.0.1; }
for way in jemalloc tarn; do
  run=(env)
  [ $way = tarn ] && run=(env "LD_LIBRARY_PATH=$work/link")
  "${run[@]}" named -f -g -c "$work/named.conf" >"log.$way" 2>&1 &
  server=$!
  note_process $server
  wait_until 30 answers "${run[@]}" || fail "named does not answer on $way: $(tail -n 2 "log.$way")"
  [ $way = jemalloc ] || require_only_tarn $server
  dig_all "${run[@]}" | sort >"answers.$way" || fail "dig failed on $way"
  "${run[@]}" dig @127.0.0.1 -p $port +noall +answer example.test AXFR | sort >"transfer.$way" || fail "no transfer on $way"
  for ((i = 0; i < 5; ++i)); do
    "${run[@]}" rndc -k "$work/key" -s 127.0.0.1 -p $((port + 1)) reload >/dev/null 2>"rndc.$way" ||
      fail "rndc reload on $way: $(tail -n 1 "rndc.$way")"
  done
  wait_until 30 answers "${run[@]}" || fail "named does not answer after reloads on $way"
  dig_all "${run[@]}" | sort >"reloaded.$way"
  kill -TERM $server
  wait $server || fail "named ended with status $? on $way: $(tail -n 2 "log.$way")"
done
compare "answers to $((queries * 3)) questions" answers.jemalloc answers.tarn
compare "transfer of the zone" transfer.jemalloc transfer.tarn
compare "answers after five reloads" reloaded.jemalloc reloaded.tarn
same "BIND 9: $((queries * 3)) questions, a transfer of $hosts hosts, reloads"
