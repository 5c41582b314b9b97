#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# PostgreSQL: initdb, a server and pgbench with tarn. The balances agree, the indexes are intact, and queries give the
# same rows as on a server without tarn, also after a restart.
. "$(dirname "$0")/common.sh"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || bin=$(dirname "$(command -v postgres || echo /nowhere/postgres)")
for program in initdb postgres psql pgbench; do
  [ -x "$bin/$program" ] || command -v $program >/dev/null || skip "no $program: install the Debian package postgresql"
done
export PATH=$bin:$PATH

scale=2 duration=4
[ "$long" = 1 ] && scale=10 duration=60
# The server refuses to run as root.
as_user=()
if [ "$(id -u)" = 0 ]; then
  id postgres >/dev/null 2>&1 || skip "run by root, and there is no user postgres: install the Debian package postgresql"
  need setpriv util-linux
  as_user=(setpriv --reuid postgres --regid postgres --clear-groups)
  chown postgres "$work"
fi
# The server's user may not be able to read the build folder.
mkdir lib && cp "$TARN_LIB" lib/ && chmod -R a+rX lib
TARN_LIB=$work/lib/$(basename "$TARN_LIB")
chmod a+rx "$work"

start_server() { # WAY
  local preload=
  [ "$1" = with ] && preload=$TARN_LIB
  "${as_user[@]}" env LD_PRELOAD="$preload" postgres -D "$work/$1.data" -k "$work" -c listen_addresses= \
    -c fsync=off -c max_parallel_workers_per_gather=2 >"$1.log" 2>&1 &
  server=$!
  note_process $server
  wait_until 60 pg_isready -q -h "$work" || {
    tail -n 5 "$1.log" >&2
    fail "postgres does not start ($1 tarn)"
  }
  [ "$1" = without ] || require_mapped $server
}
stop_server() {
  kill -INT $server
  wait $server || fail "postgres ended with status $?: $(tail -n 1 with.log)"
}
ask() { timeout 300 psql -X -q -A -t -v ON_ERROR_STOP=1 -h "$work" -U tarn -d postgres "$@"; }

cat >queries.sql <<'SQL'
SELECT i % 97 AS g, count(*), sum(i::numeric * i), string_agg(md5(i::text), '' ORDER BY i) FILTER (WHERE i < 3000)
  FROM generate_series(1, 200000) i GROUP BY 1 ORDER BY 1;
SELECT md5(jsonb_agg(jsonb_build_object('a', i, 'b', repeat('x', i % 50)) ORDER BY i)::text) FROM generate_series(1, 30000) i;
CREATE TABLE words AS SELECT i, md5(i::text) AS word FROM generate_series(1, 50000) i;
CREATE INDEX ON words(word);
SELECT count(*), min(a.word), max(b.word) FROM words a JOIN words b ON left(a.word, 4) = left(b.word, 4) AND a.i < b.i;
SELECT count(*) FROM words WHERE word ~ '^[a-f]+[0-9]{2,}.*(ab|cd|ef)$';
DROP TABLE words;
SQL
for way in without with; do
  preload=
  [ $way = with ] && preload=$TARN_LIB
  "${as_user[@]}" env LD_PRELOAD="$preload" timeout 120 initdb -D "$work/$way.data" -U tarn -A trust --no-sync \
    >$way.init 2>&1 || fail "initdb fails $way tarn: $(tail -n 1 $way.init)"
  start_server $way
  ask -f queries.sql >$way.rows || fail "the queries fail $way tarn"
  [ $way = with ] || stop_server
done
compare "rows" without.rows with.rows

bench() { # LIMIT_SECONDS OPTIONS…
  env LD_PRELOAD="$TARN_LIB" timeout "$1" pgbench -h "$work" -U tarn "${@:2}" postgres >bench.txt 2>&1 ||
    fail "pgbench ${*:2}: $(tail -n 1 bench.txt)"
}
bench 300 -i -q -s $scale
bench $((duration + 120)) -c 6 -j 2 -T $duration
grep -q '^tps = ' bench.txt || fail "pgbench reports no result"
# PostgreSQL 15 and later report this number.
failed=$(sed -n 's/^number of failed transactions: \([0-9]*\).*/\1/p' bench.txt)
[ "${failed:-0}" = 0 ] || fail "pgbench: $failed transactions failed"
sums="SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
  (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history)"
agree() {
  local all
  all=$(ask -c "$sums")
  [ "$(tr '|' '\n' <<<"$all" | sort -u | grep -c .)" = 1 ] || fail "balances disagree $1: $all"
}
agree "after pgbench"
stop_server
start_server with
agree "after a restart"
ask -f queries.sql >again.rows || fail "the queries fail after a restart"
compare "rows after a restart" without.rows again.rows
# Before PostgreSQL 14 there is no pg_amcheck, and a server may be installed without the extension.
checked=
available=$(ask -c "SELECT count(*) FROM pg_available_extensions WHERE name = 'amcheck'")
if command -v pg_amcheck >/dev/null && [ "$available" = 1 ]; then
  pg_amcheck -h "$work" -U tarn --install-missing -d postgres >amcheck.txt 2>&1 ||
    fail "pg_amcheck: $(head -n 1 amcheck.txt)"
  checked=", indexes checked"
fi
stop_server
grep -E 'PANIC|terminated by signal' with.log >&2 && fail "the server reports a crash"
same "postgres: $(awk '/transactions actually processed/ { print $NF }' bench.txt) transactions, balances and rows$checked"
