# SPDX-License-Identifier: MIT
"""Runtimes of languages."""

from program import Program

ROWS = [
    Program("rust threads", "language", "rustup, or Debian's rustc", "rustc", "{with} ./threads {rounds}", "rustc --version",
            rounds=60, make="rustc -g -O -o threads $SOURCES/threads.rs", own=r"fill_shelf.*threads\.rs:", quick=True),
    Program("rust tokio", "language", "rustup, crates", "cargo", "{with} ./tokio_server {rounds}", "cargo --version",
            rounds=300, make="cp -r $SOURCES/tokio_server . && cd tokio_server && cargo build -q --release && cp target/release/tokio_server ../server "
                 "&& cd .. && rm -rf tokio_server && mv server tokio_server",
            own=r"build_message.*main\.rs:"),
    Program("ripgrep", "language", "ripgrep", "rg", "{with} rg -j3 --sort none -c 'v[a-z]*e' $(yes words | head -n {rounds}) | sort", "rg --version",
            make="mkdir words && for i in $(seq 1 300); do seq $i 3 9000 | sed s/3/value/ >words/$i; done", rounds=1),
    Program("fd", "language", "fd-find", "fdfind", "{with} fdfind -j3 . $(yes tree | head -n {rounds}) | sort | md5sum", "fdfind --version",
            make="for i in $(seq 1 60); do mkdir -p tree/$i/a tree/$i/b; touch tree/$i/{a,b}/{1..40}; done", rounds=1),
    Program("cargo and rustc", "builder", "rustup, or Debian's cargo", "cargo",
            "cd hello && seq {rounds} | sed 's/.*/pub fn f&(v: \\&[u64]) -> Vec<u64> { v.iter().map(|x| x * &).collect() }/' >src/m.rs && {with} cargo build -q --offline 2>&1 && ./target/debug/hello", "cargo --version",
            make="cargo new -q hello --vcs none && sed -i '1i #![allow(dead_code)]\\nmod m;' hello/src/main.rs", rounds=20),
    Program("go cgo", "language", "golang-go", "go gcc", "{with} ./cgo {rounds}", "go version",
            rounds=400, make="cp -r $SOURCES/cgo src && cd src && go build -o ../cgo . && cd .. && chmod -R u+w src && rm -rf src",
            own=r"fill_box.*main\.go:|fill_box", quick=True,
            without=(("built-in", "Go ends by the system call, past libc's exit, where the profile is written"),)),
    Program("java threads", "language", "default-jdk-headless", "java javac", "{with} java -Xmx256m Threads {rounds}", "java -version 2>&1",
            rounds=40, make="javac -d . $SOURCES/Threads.java", own=r"libzip|deflate|Deflater|inflate", quick=True),
    Program("javac", "builder", "default-jdk-headless", "javac",
            "rm -rf out && seq {rounds} | sed 's/.*/class C& { int a(int x) { return x + &; } String b() { return \"b\" + a(&); } }/' >C.java && {with} javac -d out Threads.java C.java && ls out | md5sum", "javac -version 2>&1",
            make="cp $SOURCES/Threads.java .", rounds=20),
    Program("node workers", "language", "nodejs", "node", "{with} node workers.js {rounds}", "node --version",
            rounds=300, make="cp $SOURCES/workers.js .", own=r"node|zlib|deflate|Zlib", quick=True),
    Program("node better-sqlite3", "language", "nodejs, npm:better-sqlite3", "node npm", "{with} node use.js {rounds}", "node --version",
            make="npm install --silent --no-audit --no-fund better-sqlite3@12 >/dev/null && cat >use.js <<'J'\n"
                 "const d = new (require('better-sqlite3'))(':memory:'); d.exec('create table t(a, b)');\n"
                 "const i = d.prepare('insert into t values (?, ?)'); d.transaction(() => { for (let r = 0; r < +process.argv[2]; ++r) for (let k = 0; k < 60000; ++k) i.run(k, 'x'.repeat(k % 90)); })();\n"
                 "console.log(d.prepare('select sum(length(b)) s, count(distinct a % 97) c from t').get());\nJ", rounds=1),
    Program("python threads", "language", "python3", "/usr/bin/python3", "{with} /usr/bin/python3 threads.py {rounds}", "/usr/bin/python3 --version",
            rounds=60, make="cp $SOURCES/threads.py .", own=r"fill_cart.*threads\.py:|fill_cart", quick=True),
    Program("python malloc", "language", "python3", "/usr/bin/python3",
            "export PYTHONMALLOC=malloc; {with} /usr/bin/python3 threads.py {rounds}", "/usr/bin/python3 --version",
            rounds=40, make="cp $SOURCES/threads.py .", own=r"fill_cart"),
    Program("python processes", "language", "python3", "/usr/bin/python3", "{with} /usr/bin/python3 pool.py {rounds}", "/usr/bin/python3 --version",
            make="cat >pool.py <<'P'\nimport sys, multiprocessing as m\ndef work(n):\n    return sum(len(str(i) * (n % 9)) for i in range(40000))\n"
                 "if __name__ == '__main__':\n    with m.Pool(3) as p:\n        print(sum(p.map(work, range(int(sys.argv[1])))))\nP", rounds=24),
    Program("python asyncio", "language", "python3", "/usr/bin/python3", "{with} /usr/bin/python3 a.py {rounds}", "/usr/bin/python3 --version",
            make="cat >a.py <<'P'\nimport asyncio, sys\nasync def talk(reader, writer):\n    writer.write((await reader.readline()) * 50)\n"
                 "    await writer.drain(); writer.close()\nasync def ask(port, n):\n    r, w = await asyncio.open_connection('127.0.0.1', port)\n"
                 "    w.write(b'x' * (n % 700) + b'\\n'); t = len(await r.read()); w.close(); return t\nasync def main():\n"
                 "    s = await asyncio.start_server(talk, '127.0.0.1', 0); port = s.sockets[0].getsockname()[1]; t = 0\n"
                 "    for r in range(int(sys.argv[1])):\n        t += sum(await asyncio.gather(*(ask(port, r * 30 + k) for k in range(30))))\n    print(t)\nasyncio.run(main())\nP", rounds=30),
    Program("numpy", "language", "python3-numpy", "py:numpy", "{with} /usr/bin/python3 n.py {rounds}", "/usr/bin/python3 -c 'import numpy; print(numpy.__version__)'",
            make="cat >n.py <<'P'\nimport sys, numpy as n\ndef mix(k):\n    a = n.arange(200000 + k, dtype='f8').reshape(-1)\n    return float(n.sort(n.sin(a))[::1000].sum())\n"
                 "print(round(sum(mix(k) for k in range(int(sys.argv[1]))), 6), round(float((n.ones((300, 300)) @ n.ones((300, 300))).sum())))\nP", own=r"mix", rounds=40),
    Program("pandas", "language", "python3-pandas", "py:pandas", "{with} /usr/bin/python3 p.py {rounds}", "/usr/bin/python3 -c 'import pandas; print(pandas.__version__)'",
            make="cat >p.py <<'P'\nimport sys, pandas as p\nd = p.DataFrame({'k': [i % 97 for i in range(120000)], 's': ['v%d' % (i % 1013) for i in range(120000)], 'x': range(120000)})\n"
                 "for k in range(int(sys.argv[1])):\n    t = d.groupby('k').x.sum().sum(), d.sort_values('s').x.head(5).tolist(), d.merge(d.head(2000), on='x').shape\nprint(*t)\nP", rounds=1),
    Program("scikit-learn", "language", "python3-sklearn", "py:sklearn", "{with} /usr/bin/python3 s.py", "/usr/bin/python3 -c 'import sklearn; print(sklearn.__version__)'",
            make="cat >s.py <<'P'\nfrom sklearn.datasets import make_classification\nfrom sklearn.ensemble import RandomForestClassifier\n"
                 "x, y = make_classification(4000, 20, random_state=1)\nprint(RandomForestClassifier(30, n_jobs=2, random_state=1).fit(x, y).score(x, y))\nP", seconds=120),
    Program("opencv", "language", "python3-opencv", "py:cv2", "{with} /usr/bin/python3 o.py {rounds}", "/usr/bin/python3 -c 'import cv2; print(cv2.__version__)'",
            make="cat >o.py <<'P'\nimport sys, cv2, numpy as n\na = (n.arange(900 * 900 * 3) % 251).astype('u1').reshape(900, 900, 3)\n"
                 "for k in range(int(sys.argv[1])):\n    a = cv2.GaussianBlur(cv2.resize(a, (900 + k % 12, 900 - k % 12)), (5, 5), 1)\nprint(int(a.sum()), len(cv2.imencode('.png', a)[1]))\nP", seconds=120, rounds=12),
    Program("gevent", "language", "python3-gevent", "py:gevent", "{with} /usr/bin/python3 g.py {rounds}", "/usr/bin/python3 -c 'import gevent; print(gevent.__version__)'",
            make="cat >g.py <<'P'\nimport sys, gevent\ndef work(n):\n    t = 0\n    for i in range(20):\n        t += len('y' * (n * i % 800)); gevent.sleep(0)\n    return t\n"
                 "print(sum(g.value for r in range(int(sys.argv[1])) for g in gevent.joinall([gevent.spawn(work, r * 50 + k) for k in range(50)])))\nP", own=r"g\.py|work|gevent|greenlet", rounds=40),
    Program("pyarrow", "language", "pip:pyarrow", "venv:pyarrow", "{with} $WORLD_VENV/bin/python a.py {rounds}",
            "$WORLD_VENV/bin/python -c 'import pyarrow; print(pyarrow.__version__)'",
            make="cat >a.py <<'P'\nimport sys, pyarrow as a, pyarrow.compute as c, pyarrow.parquet as q\n"
                 "t = a.table({'k': [i % 101 for i in range(200000)], 's': ['w%d' % (i % 5003) for i in range(200000)]})\nq.write_table(t, 'f.parquet')\n"
                 "for r in range(int(sys.argv[1])):\n    u = q.read_table('f.parquet')\n    s = (u.num_rows, c.sum(u['k']).as_py(), u.group_by('s').aggregate([('k', 'sum')]).num_rows)\nprint(s)\nP", rounds=1),
    Program("duckdb", "language", "pip:duckdb", "venv:duckdb", "{with} $WORLD_VENV/bin/python d.py {rounds}",
            "$WORLD_VENV/bin/python -c 'import duckdb; print(duckdb.__version__)'",
            make="cat >d.py <<'P'\nimport sys, duckdb\nd = duckdb.connect(); d.execute('create table t as select range k, (range * 7919) % 10007 m, repeat(chr(97 + (range % 26)::int), (range % 30)::int) s from range(400000)')\n"
                 "for r in range(int(sys.argv[1])):\n    u = (d.execute('select count(distinct m), sum(length(s)), max(k) from t').fetchall(), d.execute('select s, count(*) n from t group by s order by n desc, s limit 3').fetchall())\nprint(u)\nP", rounds=1),
    Program("polars", "language", "pip:polars", "venv:polars", "{with} $WORLD_VENV/bin/python p.py {rounds}",
            "$WORLD_VENV/bin/python -c 'import polars; print(polars.__version__)'",
            make="cat >p.py <<'P'\nimport sys, polars as p\nd = p.DataFrame({'k': [i % 97 for i in range(200000)], 's': ['v%d' % (i % 1013) for i in range(200000)]})\n"
                 "for r in range(int(sys.argv[1])):\n    u = (d.group_by('s').agg(p.col('k').sum()).sort('s').head(3).rows(), d.sort('s', 'k').tail(2).rows())\nprint(u)\nP", rounds=1),
    Program("ruby threads", "language", "ruby", "ruby", "{with} ruby threads.rb {rounds}", "ruby --version", rounds=40, make="cp $SOURCES/threads.rb .",
            own=r"ruby|rb_|st_", quick=True),
    Program("ruby fibers", "language", "ruby", "ruby", "{with} ruby fibers.rb {rounds}", "ruby --version", rounds=400, make="cp $SOURCES/fibers.rb .", own=r"ruby|rb_"),
    Program("php", "language", "php-cli", "php", "{with} php -n p.php {rounds}", "php --version",
            make="cat >p.php <<'P'\n<?php $s = 0; for ($r = 0; $r < $argv[1]; ++$r) { $a = []; for ($i = 0; $i < 4000; ++$i) $a[\"k\" . ($i * 7 % 1009)] = str_repeat('x', $i % 300);\n"
                 "ksort($a); $s += array_sum(array_map('strlen', $a)); } echo $s, \"\\n\";\nP", rounds=60),
    Program("php with extensions", "language", "php-cli php-gd php-mbstring php-xml", "php",
            "{with} php p.php {rounds}", "php --version",
            make="php -r 'exit(extension_loaded(\"gd\") && extension_loaded(\"mbstring\") ? 0 : 1);' && cat >p.php <<'P'\n"
                 "<?php for ($r = 0; $r < $argv[1]; ++$r) { $m = imagecreatetruecolor(300, 300); for ($i = 0; $i < 90000; ++$i) imagesetpixel($m, $i % 300, intdiv($i, 300), $i * 37);\n"
                 "ob_start(); imagepng($m); echo strlen(ob_get_clean()), mb_strtoupper(str_repeat('ä', 9)), \"\\n\";\n"
                 "$d = new DOMDocument; for ($i = 0; $i < 3000; ++$i) { $e = $d->createElement('a', \"$i\"); $i ? $d->firstChild->appendChild($e) : $d->appendChild($e); } echo strlen($d->saveXML()), \"\\n\"; }\nP", rounds=1),
    Program("perl", "language", "perl", "perl",
            "{with} perl -e 'for $r (1..{rounds}) { my %h; $h{$_ * 7 % 1009} .= \"x\" x ($_ % 90) for 1..3000; $s += length for values %h } print \"$s\\n\"'",
            "perl -e 'print $^V'", rounds=60, own=r"perl|Perl_"),
    Program("R", "language", "r-base-core", "Rscript",
            "{with} Rscript -e 'x <- sapply(1:{rounds}, function(i) sum(sort((1:3000 * i) %% 997))); d <- data.frame(k = x %% 7, x = x); print(aggregate(x ~ k, d, sum))'",
            "R --version", seconds=120, rounds=200),
    Program("lua", "language", "lua5.4", "lua5.4",
            "{with} lua5.4 -e 's = 0 for r = 1, {rounds} do local t = {} for i = 1, 4000 do t[\"k\" .. i * 7 % 1009] = (\"x\"):rep(i % 200) end for _, v in pairs(t) do s = s + #v end end print(s)'",
            "lua5.4 -v", rounds=40, own=r"main chunk"),
    Program("luajit", "language", "luajit", "luajit",
            "{with} luajit -e 's = 0 for r = 1, {rounds} do local t = {} for i = 1, 4000 do t[\"k\" .. i * 7 % 1009] = (\"x\"):rep(i % 200) end for _, v in pairs(t) do s = s + #v end end print(s)'",
            "luajit -v", rounds=80),
    Program("erlang", "language", "erlang-base", "erl",
            "{with} erl -noshell -eval 'P = self(), [spawn(fun() -> P ! lists:sum([byte_size(list_to_binary(lists:duplicate(I * K rem 2000, 65))) || I <- lists:seq(1, 200)]) end) || K <- lists:seq(1, {rounds})], "
            "io:format(\"~p~n\", [lists:sum([receive S -> S end || _ <- lists:seq(1, {rounds})])]), halt().'",
            "erl -noshell -eval 'io:format(\"~s\", [erlang:system_info(otp_release)]), halt().'", rounds=40),
    Program("ocaml", "language", "ocaml-nox", "ocamlopt", "{with} ./basket {rounds}", "ocamlopt -version",
            rounds=800, make="cp $SOURCES/basket.ml . && ocamlopt -g basket.ml -o basket 2>/dev/null", own=r"basket|caml"),
    Program("haskell", "language", "ghc", "ghc", "{with} ./basket {rounds}", "ghc --version",
            make="cp $SOURCES/basket.hs . && ghc -v0 -O -package containers basket.hs -o basket", seconds=120, rounds=1),
    Program("sbcl", "language", "sbcl", "sbcl",
            "{with} sbcl --noinform --non-interactive --eval '(print (loop for r from 1 to {rounds} sum (length (sort (loop for i from 1 to 2000 collect (mod (* i r) 997)) (function <)))))'",
            "sbcl --version", rounds=300),
    Program("mono", "language", "mono-runtime mono-mcs", "mono mcs", "{with} mono Basket.exe {rounds}", "mono --version",
            make="mcs -out:Basket.exe $SOURCES/Basket.cs", rounds=10),
    Program("guile", "language", "guile-3.0", "guile",
            "export GUILE_AUTO_COMPILE=0; {with} guile -c '(display (let f ((r 0) (s 0)) (if (= r {rounds}) s (f (+ r 1) (+ s (string-length (apply string-append (map (lambda (i) (make-string (modulo (* i r) 90) #\\x)) (iota 800)))))))))'",
            "guile --version", rounds=60),
    Program("swi-prolog", "language", "swi-prolog-nox", "swipl",
            "{with} swipl -g 'numlist(1, {rounds}, L), foldl([X, A, B]>>(B is A + X mod 97), L, 0, S), findall(Y, (member(X, L), atom_number(Y, X)), Ys), length(Ys, N), print(S-N), nl' -t halt",
            "swipl --version", rounds=60000),
    Program("racket", "language", "racket", "racket",
            "{with} racket -e '(for/sum ([r {rounds}]) (length (sort (for/list ([i 2000]) (modulo (* i r) 997)) <)))'", "racket --version", rounds=200),
    Program("tcl", "language", "tcl", "tclsh", "echo 'for {set r 0} {$r < {rounds}} {incr r} {for {set i 0} {$i < 3000} {incr i} {append a([expr $i * 7 % 1009]) [string repeat x [expr $i % 40]]}}; "
            "set s 0; foreach {k v} [array get a] {incr s [string length $v]}; puts $s' >s.tcl; {with} tclsh s.tcl", "echo 'puts [info patchlevel]' | tclsh", rounds=40),
    Program("gawk", "language", "gawk", "gawk",
            "{with} gawk 'BEGIN { for (i = 1; i < {rounds}; ++i) a[i * 7 % 10007] = a[i % 1009] \"x\"; for (k in a) s += length(a[k]); print s }'", "gawk --version", rounds=300000),
    Program("fortran", "language", "gfortran", "gfortran", "{with} ./f {rounds}", "gfortran --version",
            make="cat >f.f90 <<'F'\nprogram f\n real(8), allocatable :: a(:)\n integer :: i, n\n character(20) :: w\n real(8) :: s\n s = 0\n call get_command_argument(1, w)\n read (w, *) n\n do i = 1, n\n  allocate(a(mod(i, 3000) * 7 + 1))\n  a = i\n  s = s + sum(a)\n  deallocate(a)\n end do\n print *, s\nend\nF\n"
                 "gfortran -g -O1 f.f90 -o f", own=r"f\.f90", rounds=3000),
    Program("nim", "language", "nim", "nim", "{with} ./b {rounds}", "nim --version",
            make="printf 'import tables, strutils, os\\nvar s = 0\\nfor r in 1..parseInt(paramStr(1)):\\n  var t = initTable[string, int]()\\n  for i in 1..3000: t[$(i * 7 mod 1009)] = repeat(\"x\", i mod 90).len\\n  for v in t.values: s += v\\necho s\\n' >b.nim && "
                 "nim c -d:release -d:useMalloc --hints:off --nimcache:c -o:b b.nim >/dev/null", rounds=40),
    Program("fibers that change threads", "what else sits in a process", "g++", "g++", "{with} ./contexts {rounds}", "g++ --version",
            rounds=40, make="g++ -g -O1 -std=c++20 -pthread $SOURCES/contexts.cpp -o contexts", own=r"fill_map.*contexts\.cpp:|fill_map", quick=True),
]
