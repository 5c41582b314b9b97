# SPDX-License-Identifier: MIT
"""Servers, each with a load. Every server listens on a socket in its folder, or on a port of its own of 127.0.0.1."""

from program import Program

ROWS = [
    Program("redis", "server; shim", "redis-server redis-tools", "redis-server redis-cli redis-benchmark",
            "{with} redis-server --port 0 --unixsocket $PWD/s --save '' --dir $PWD --enable-debug-command yes", "redis-server --version",
            ready="redis-cli -s s ping | grep -q PONG",
            load="awk 'BEGIN { for (i = 0; i < 60000; ++i) { print \"SET k\" i % 5003 \" \" i; print \"RPUSH l\" i % 301 \" v\" i; print \"HSET h\" i % 97 \" f\" i \" x\" i } }' | "
                 "redis-cli -s s --pipe | tail -1; redis-benchmark -s s -q -n 40000 -t get,lrange_100 >/dev/null; redis-cli -s s debug digest",
            own=r"redis|sds|dict|zmalloc|Command|Buffer|Object", quick=True),
    Program("valkey", "server; shim", "valkey-server valkey-tools", "valkey-server valkey-cli",
            "{with} valkey-server --port 0 --unixsocket $PWD/s --save '' --dir $PWD --enable-debug-command yes", "valkey-server --version",
            ready="valkey-cli -s s ping | grep -q PONG",
            load="awk 'BEGIN { for (i = 0; i < 60000; ++i) { print \"SET k\" i % 5003 \" \" i; print \"HSET h\" i % 97 \" f\" i \" x\" i } }' | valkey-cli -s s --pipe | tail -1; valkey-cli -s s debug digest"),
    Program("memcached", "server", "memcached", "memcached /usr/bin/python3", "{with} memcached -u nobody -l 127.0.0.1 -p 18481 -m 64 -t 4", "memcached --version",
            ready="echo stats | timeout 1 bash -c 'exec 3<>/dev/tcp/127.0.0.1/18481'", load="/usr/bin/python3 m.py",
            make="cat >m.py <<'P'\nimport socket\ns = socket.create_connection(('127.0.0.1', 18481)); f = s.makefile('rb'); t = 0\nfor i in range(20000):\n"
                 "    v = b'x' * (i * 31 % 2000)\n    s.sendall(b'set k%d 0 0 %d\\r\\n%s\\r\\n' % (i % 3001, len(v), v)); f.readline()\n"
                 "    if i % 3 == 0:\n        s.sendall(b'get k%d\\r\\n' % (i % 3001)); n = int(f.readline().split()[3]); t += len(f.read(n + 2)); f.readline()\nprint(t)\nP", quick=True),
    Program("postgresql", "server", "postgresql", "setpriv /usr/lib/postgresql/*/bin/postgres",
            "chown -R nobody data; exec {with} setpriv --reuid=nobody --clear-groups $(ls -d /usr/lib/postgresql/*/bin | tail -1)/postgres -D data -k $PWD/data -c listen_addresses= -c fsync=off",
            "/usr/lib/postgresql/*/bin/postgres --version", ready="psql -h $PWD/data -U nobody -d postgres -c 'select 1'",
            make="chown nobody . && setpriv --reuid=nobody --clear-groups $(ls -d /usr/lib/postgresql/*/bin | tail -1)/initdb -D data -U nobody >/dev/null",
            load="for i in 1 2 3; do psql -qAt -h $PWD/data -U nobody -d postgres -c \"create temp table t as select g k, repeat('x', g % 90) s, g * 7919 % 10007 m from generate_series(1, 120000) g; "
                 "select count(distinct m), sum(length(s)), md5(string_agg(s, ',' order by k)) from t; select m % 7, sum(k) from t group by 1 order by 1\" & done; wait",
            seconds=90),
    Program("mariadb", "server", "mariadb-server", "mariadbd mariadb-install-db mariadb",
            "chown -R nobody data; {with} mariadbd --no-defaults --user=nobody --datadir=$PWD/data --socket=$PWD/data/s --skip-networking --pid-file=$PWD/data/p --skip-log-bin --innodb-flush-log-at-trx-commit=0",
            "mariadbd --version", ready="mariadb --no-defaults -S data/s -e 'select 1'",
            make="mariadb-install-db --no-defaults --user=nobody --datadir=$PWD/data --auth-root-authentication-method=normal --skip-test-db >/dev/null 2>&1",
            load="mariadb --no-defaults -S data/s -e \"create database d; use d; create table t (k int primary key, s varchar(90), m int); "
                 "insert into t select seq, repeat('x', seq % 90), seq * 7919 % 10007 from seq_1_to_60000; select count(distinct m), sum(length(s)), md5(group_concat(s order by k)) from t; "
                 "select m % 7, sum(k) from t group by 1 order by 1\"", seconds=120),
    Program("nginx", "server", "nginx-light curl", "nginx curl",
            "{with} nginx -e stderr -p $PWD -c $PWD/n.conf", "nginx -v 2>&1",
            make="mkdir html && seq 1 40000 >html/a.txt && printf 'daemon off; pid p; error_log stderr; worker_processes 2; user root; events {} http { gzip on; gzip_types text/plain; "
                 "access_log off; server { listen unix:%s/s; root html; } }' . >n.conf && sed -i 's#unix:./s#unix:s#' n.conf",
            ready="curl -s --unix-socket s http://x/a.txt", load="for i in $(seq 1 60); do curl -s --compressed --unix-socket s http://x/a.txt | md5sum; done | sort | uniq -c", quick=True),
    Program("haproxy", "server", "haproxy curl", "haproxy curl /usr/bin/python3",
            "(cd html && exec /usr/bin/python3 -m http.server 18471 --bind 127.0.0.1 >/dev/null 2>&1) & exec {with} haproxy -f h.cfg -db", "haproxy -v",
            make="mkdir html && seq 1 40000 >html/a.txt && printf 'defaults\\n mode http\\n timeout client 9s\\n timeout server 9s\\n timeout connect 9s\\nfrontend f\\n bind 127.0.0.1:18472\\n"
                 " compression algo gzip\\n compression type text/plain\\n default_backend b\\nbackend b\\n server s 127.0.0.1:18471\\n' >h.cfg",
            ready="curl -sf http://127.0.0.1:18472/a.txt", without=(("built-in", "with -db it dies by the signal that ends it, and no profile is written"),),
            load="for i in $(seq 1 40); do curl -s --compressed http://127.0.0.1:18472/a.txt | md5sum; done | sort | uniq -c"),
    Program("varnish", "server; shim", "varnish curl", "varnishd curl /usr/bin/python3",
            "(cd html && exec /usr/bin/python3 -m http.server 18473 --bind 127.0.0.1 >/dev/null 2>&1) & exec {with} varnishd -j none -F -n $PWD/v -a 127.0.0.1:18474 -b 127.0.0.1:18473 -s malloc,50m -S none",
            "varnishd -V 2>&1", make="mkdir html && for i in $(seq 1 40); do seq $i 9000 >html/$i.txt; done", ready="curl -sf http://127.0.0.1:18474/1.txt",
            load="for r in 1 2 3; do for i in $(seq 1 40); do curl -s http://127.0.0.1:18474/$i.txt | md5sum; done; done | sort | uniq -c | md5sum"),
    Program("bind9", "server; shim", "bind9 dnsutils", "named dig", "{with} named -g -c n.conf -n 2", "named -V",
            make="printf '$TTL 60\\n@ IN SOA a. b. 1 2 3 4 5\\n@ IN NS a.x.\\na IN A 10.0.0.1\\n' >z; for i in $(seq 1 3000); do echo \"h$i IN A 10.1.$((i / 250)).$((i % 250))\"; done >>z; "
                 "printf 'options { listen-on port 18475 { 127.0.0.1; }; listen-on-v6 { none; }; directory \".\"; pid-file none; session-keyfile none; managed-keys-directory \".\"; recursion no; dnssec-validation no; };\\ncontrols {};\\nzone \"x\" { type master; file \"z\"; };\\n' >n.conf",
            ready="dig +short +time=1 +tries=1 -p 18475 @127.0.0.1 a.x | grep -q 10", load="seq 1 3000 | sed 's/.*/h&.x/' >q; dig +short -p 18475 @127.0.0.1 -f q | sort | md5sum"),
    Program("apache", "server", "apache2 curl", "apache2 curl",
            "export APACHE_RUN_DIR=$PWD; {with} apache2 -d $PWD -f $PWD/a.conf -DFOREGROUND", "apache2 -v",
            make="mkdir html && seq 1 40000 >html/a.txt && printf 'ServerName x\\nListen 127.0.0.1:18476\\nPidFile p\\nErrorLog e\\nUser root\\nDocumentRoot html\\nLoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\\n"
                 "LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\\nLoadModule deflate_module /usr/lib/apache2/modules/mod_deflate.so\\nLoadModule filter_module /usr/lib/apache2/modules/mod_filter.so\\nSetOutputFilter DEFLATE\\n' >a.conf && sed -i '/^User root/d' a.conf",
            ready="curl -sf http://127.0.0.1:18476/a.txt", load="for i in $(seq 1 40); do curl -s --compressed http://127.0.0.1:18476/a.txt | md5sum; done | sort | uniq -c"),
    Program("mosquitto", "server", "mosquitto mosquitto-clients", "mosquitto mosquitto_sub mosquitto_pub", "{with} mosquitto -p 18477", "mosquitto -h | head -1",
            ready="mosquitto_pub -p 18477 -t a -m b", load="mosquitto_sub -p 18477 -t w -C 2000 | md5sum & sleep 0.5; seq 1 2000 | mosquitto_pub -p 18477 -t w -l; wait"),
    Program("dnsmasq", "server", "dnsmasq dnsutils", "dnsmasq dig",
            "{with} dnsmasq -k -u root -C /dev/null -p 18478 -h -R --listen-address=127.0.0.1 --bind-interfaces -H $PWD/hosts", "dnsmasq --version",
            make="for i in $(seq 1 3000); do echo 10.1.$((i / 250)).$((i % 250)) h$i; done >hosts", ready="dig +short +time=1 +tries=1 -p 18478 @127.0.0.1 h1 | grep -q 10",
            load="seq 1 2000 | sed 's/^/h/' >q; dig +short -p 18478 @127.0.0.1 -f q | md5sum"),
    Program("unbound", "server", "unbound dnsutils", "unbound dig", "{with} unbound -d -c u.conf", "unbound -V",
            make="(printf 'server:\\n interface: 127.0.0.1@18479\\n username: \"\"\\n chroot: \"\"\\n directory: \".\"\\n pidfile: \"\"\\n use-syslog: no\\n num-threads: 2\\n auto-trust-anchor-file: \"\"\\n'; "
                 "for i in $(seq 1 2000); do echo \" local-data: 'h$i.x. A 10.1.$((i / 250)).$((i % 250))'\"; done; printf 'remote-control:\\n control-enable: no\\n') >u.conf",
            ready="dig +short +time=1 +tries=1 -p 18479 @127.0.0.1 h1.x | grep -q 10", load="seq 1 2000 | sed 's/.*/h&.x/' >q; dig +short -p 18479 @127.0.0.1 -f q | md5sum"),
    Program("gunicorn", "server", "gunicorn", "gunicorn curl", "{with} gunicorn --log-level error -w 3 -b unix:s app:application", "gunicorn --version",
            make="cat >app.py <<'P'\ndef application(environ, start):\n    start('200 OK', [('Content-Type', 'text/plain')])\n    return [b''.join(b'%d,' % (i * i) for i in range(3000))]\nP",
            ready="curl -sf --unix-socket s http://x/", load="for i in $(seq 1 60); do curl -s --unix-socket s http://x/ | md5sum; done | sort | uniq -c"),
    Program("rsync daemon", "server", "rsync", "rsync", "{with} rsync --daemon --no-detach --config=r.conf --port=18480", "rsync --version",
            make="mkdir from && for i in $(seq 1 400); do seq $i 900 >from/$i; done && printf 'use chroot = no\\nuid = root\\n[m]\\n path = %s\\n' from >r.conf",
            ready="rsync --port=18480 127.0.0.1::", load="for i in 1 2 3; do rm -rf to; rsync -a --port=18480 127.0.0.1::m to; cat to/* | md5sum; done"),
]
