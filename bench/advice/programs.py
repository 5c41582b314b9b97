# SPDX-License-Identifier: MIT
"""The programs of the advice benchmark: commands of Debian packages that take about a second and need no network.

The table has two halves, which are kept apart. From FIT the intervals of all advice are made (fitting.py); nothing else may be
taken from TEST than how well they hold. The halves have no program in common: no interpreter, compiler or tool of FIT occurs
in TEST. What is changed here is measured anew as a whole. Inputs of eight programs of TEST were made larger after a first look at
how long they run, and at what was said of them; php leaves out its opcode cache, with which it ends by a signal under tarn (the
cache is opened with RTLD_DEEPBIND, docs/how-to/linking.md).

A word "@NAME" of a command stands for the file NAME of inputs.py.
"""
import dataclasses
import os
import shutil
import subprocess

MALLOC = {"PYTHONMALLOC": "malloc"}

PYTHON_JSON = ("import json\nrows = [{'id': i, 'name': 'row %d' % i, 'tags': ['a', 'b', str(i)]} for i in range(4000)]\n"
               "total = 0\nfor turn in range(60): total += len(json.loads(json.dumps(rows)))\nprint(total)")
PYTHON_WORDS = ("import collections\ncounts = collections.Counter()\n"
                "for i in range(1200000): counts['w%d' % (i * 7919 % 50021)] += 1\nprint(len(counts))")
PYTHON_BUFFERS = "total = 0\nfor i in range(900):\n    b = bytearray(1 << 20); total += len(bytes(b))\nprint(total)"
PYTHON_TREES = ("class N:\n    __slots__ = ('l', 'r')\ndef make(d):\n    n = N()\n"
                "    n.l, n.r = (make(d - 1), make(d - 1)) if d else (None, None)\n    return n\nfor i in range(60): make(14)")
SQL = ("create table t(a integer primary key, b text, c real);\n"
       "with recursive n(i) as (select 1 union all select i+1 from n where i < 400000)\n"
       "insert into t select i, 'text ' || (i*7919 % 100003), i*0.37 from n;\n"
       "create index bi on t(b); select count(distinct b), sum(c) from t;")
LUA_STRINGS = "local t = {} for i = 1, 1600000 do t[i % 5000] = 'item ' .. i .. ' of ' .. (i * 7 % 91) end print(#t)"
LUA_TREES = ("local function make(d) if d == 0 then return {} end return {make(d-1), make(d-1)} end "
             "for i = 1, 90 do make(14) end")
PERL_HASH = "for $r (1..5) { my %h; $h{\"key $_\"} = [$_, \"v$_\"] for 1..60000; $s += keys %h; } print $s"
PERL_SPLIT = "for $r (1..900) { my @a = split /,/, join(',', 1..8000); $s += @a } print $s"
PERL_BLOCKS = "for $r (1..30) { my $x = chr(65 + $r % 20) x (40 << 20); $s += length $x; undef $x } print $s"
LUA_BLOCKS = "local n = 0 for i = 1, 8 do local s = string.rep('x' .. i, 20000000) n = n + #s s = nil collectgarbage() end print(n)"
JQ = "[range(160000) | {id: ., name: \"n\\(.)\", tags: [., . * 2]}] | map(select(.id % 3 == 0)) | length"

NODE = ("const m = new Map(); for (let i = 0; i < 400000; i++) m.set('k' + i % 50021, {i, a: [i, i + 1]});"
        "let n = 0; for (let r = 0; r < 12; r++) n += JSON.parse(JSON.stringify([...m.values()])).length; console.log(n)")
RUBY = ("h = Hash.new(0); 700000.times { |i| h[\"w#{i * 7919 % 50021}\"] += 1 }\n"
        "a = (0...200000).map { |i| [i, \"v#{i}\"] }; puts h.size + a.sort_by { |x| x[1] }.size")
PHP = ("$a = []; for ($i = 0; $i < 2500000; $i++) { $k = 'k' . ($i * 7919 % 50021); $a[$k] = ($a[$k] ?? '') === '' ? 'v' . $i : ''; }"
       "for ($r = 0; $r < 12; $r++) { $b = json_decode(json_encode($a), true); } echo count($b);")
GUILE = ("(define (make d) (if (= d 0) '() (list (make (- d 1)) (make (- d 1)))))"
         "(define (size t) (if (null? t) 1 (+ (size (car t)) (size (cadr t)))))"
         "(let loop ((i 0) (s 0)) (if (< i 45) (loop (+ i 1) (+ s (size (make 15)))) (begin (display s) (newline))))")
GAWK = "{ for (i = 1; i <= NF; i++) count[$i]++; n += split($0, part, /[aeiou]/) } END { print length(count), n }"


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    package: str  # of Debian
    words: tuple
    variables: dict = dataclasses.field(default_factory=dict)


def python():
    return next((path for path in ("/usr/bin/python3",) if os.path.exists(path)), "python3")


def compiler():
    """The program behind g++, which does the work, and the folder of headers that g++ names to it."""
    if not shutil.which("g++"):
        return ("cc1plus",)
    program, folder = (subprocess.run(["g++", "-print-" + what], capture_output=True, text=True, check=True).stdout.strip()
                       for what in ("prog-name=cc1plus", "multiarch"))
    return (program, "-imultiarch", folder)


def fit_programs():
    return (
        Program("python-json", "python3", (python(), "-S", "-c", PYTHON_JSON), MALLOC),
        Program("python-words", "python3", (python(), "-S", "-c", PYTHON_WORDS), MALLOC),
        Program("python-buffers", "python3", (python(), "-S", "-c", PYTHON_BUFFERS)),
        Program("python-trees", "python3", (python(), "-S", "-c", PYTHON_TREES), MALLOC),
        Program("sqlite-load", "sqlite3", ("sqlite3", ":memory:", SQL)),
        Program("lua-strings", "lua5.4", ("lua5.4", "-e", LUA_STRINGS)),
        Program("lua-trees", "lua5.4", ("lua5.4", "-e", LUA_TREES)),
        Program("perl-hash", "perl", ("perl", "-e", PERL_HASH)),
        Program("lua-blocks", "lua5.4", ("lua5.4", "-e", LUA_BLOCKS)),
        Program("perl-blocks", "perl", ("perl", "-e", PERL_BLOCKS)),
        Program("perl-split", "perl", ("perl", "-e", PERL_SPLIT)),
        Program("tcl-dict", "tcl", ("tclsh", "@dict.tcl")),
        Program("jq-select", "jq", ("jq", "-n", JQ)),
        Program("xz-pack", "xz-utils", ("xz", "-3", "-c", "-T1", "@few-words.txt")),
    )


def test_programs():
    return (
        Program("zstd-pack", "zstd", ("zstd", "-q", "-12", "-c", "@words.txt")),
        Program("sort-lines", "coreutils", ("sort", "--parallel=1", "-S", "128M", "-k", "3", "@many-words.txt")),
        Program("git-log", "git", ("git", "-c", "safe.directory=*", "-C", "@repository", "log", "--stat", "-p")),
        Program("g++-compile", "g++", (*compiler(), "-quiet", "-D_GNU_SOURCE", "-O1", "-std=c++17", "@program.cpp", "-o", os.devnull)),
        Program("node-json", "nodejs", ("node", "-e", NODE)),
        Program("gawk-count", "gawk", ("gawk", GAWK, "@words.txt")),
        Program("bzip2-pack", "bzip2", ("bzip2", "-c", "@words.txt")),
        Program("openssl-hash", "openssl", ("openssl", "dgst", "-sha3-512", *["@words.txt"] * 12)),
        Program("gs-pages", "ghostscript", ("gs", "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=ppmraw", "-r100", "-o", os.devnull,
                                            "@pages.ps")),
        Program("ruby-hash", "ruby", ("ruby", "-e", RUBY)),
        Program("php-json", "php-cli", ("php", "-n", "-d", "memory_limit=1G", "-r", PHP)),
        Program("guile-trees", "guile-3.0", ("guile", "--no-auto-compile", "-c", GUILE)),
        Program("xmllint-parse", "libxml2-utils", ("xmllint", "--noout", "@table.xml")),
        Program("xsltproc-sort", "xsltproc", ("xsltproc", "-o", os.devnull, "@style.xsl", "@small-table.xml")),
        Program("rsvg-paths", "librsvg2-bin", ("rsvg-convert", "@paths.svg")),
        Program("gnuplot-lines", "gnuplot-nox", ("gnuplot", "@plot.gp")),
        Program("dot-layout", "graphviz", ("dot", "-Tsvg", "-o", os.devnull, "@graph.dot")),
        Program("m4-macros", "m4", ("m4", "@macros.m4")),
        Program("bc-power", "bc", ("bc", "@power.bc")),
        Program("cmake-script", "cmake", ("cmake", "-P", "@strings.cmake")),
    )


def all_programs():
    """Pairs of the half's name and the program."""
    return [("fit", each) for each in fit_programs()] + [("test", each) for each in test_programs()]
