# SPDX-License-Identifier: MIT
"""End-to-end: names that others choose (of functions, files, threads, programs, arguments, variables, labels) pass through every
command and every form of its output, and each output is read by a strict reader of its form. ROWS is the table; a command or an
option that makes another output, and has no row there, fails the test."""
import collections
import contextlib
import functools
import glob
import gzip
import html.parser
import json
import os
import re
import shutil
import subprocess

from harness import Base, environment, settings, tarn
from peers_test import Process, Recorder, body

# What acts on a terminal, ends a line or changes the direction of text.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
# As tests/profiler/synthetic_profile.cpp; without the slash, which no name of a file has.
EVIL = b"\x1b]0;title\x07\nforged 9.9 s\r\t\xff\xfe\xc2\x9b31m\xe2\x80\xae\xe2\x80\xa8\xef\xbb\xbf\x7f<script><!--<script>\"'\\&;{}"
TEXT = EVIL.decode("utf-8", "surrogateescape")
MARKUP = "<script><!--\"'\\&;{}"
SENT = EVIL.replace(b"\n", b" ")

# A program whose function, thread, mapping and allocations have such names, and which stays for a while if it is told to.
PROGRAM = """
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
extern "C" void* leaf(int bytes) asm("\\"evil\\033]0;title\\007\\177<script>\\"");
extern "C" __attribute__((noinline)) void* leaf(int bytes) {
  void* volatile block = std::malloc(bytes);
  std::memset(block, 1, bytes);
  asm volatile("");
  return block;
}
static void* thread(void*) {
  pthread_setname_np(pthread_self(), "\\033[2J\\nforged\\x7f");
  for (int i = 0; i < 30000; ++i) std::free(leaf(64));
  leaf(3000000);
  return nullptr;
}
int main(int count, char**) {
  void* named = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(named, 1, 1 << 20);
  prctl(0x53564d41, 0, named, 1 << 20, "evil name");
  prctl(PR_SET_NAME, "\\033[31m\\nforged");
  pthread_t one;
  pthread_create(&one, nullptr, thread, nullptr);
  pthread_join(one, nullptr);
  for (int i = 0; i < 10; ++i) std::free(leaf(4000000 + i * 400000));  // each maps anew
  if (count > 2) sleep(60);
}
"""


# ---- readers, one for each form ----

def text(output):
    said = output.decode("utf-8")
    found = UNSAFE.search(said)
    assert not found, said[max(0, found.start() - 60):found.end() + 60]
    assert not re.search(r"(?m)^\W*(9\.9 s )?forged", said), said
    return said


def no_twice(pairs):
    assert len({name for name, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def json_object(output):
    return json.loads(text(output), object_pairs_hook=no_twice, parse_constant=lambda word: 1 / 0)


def json_lines(output):
    return [json_object(line) for line in output.splitlines()]


class Page(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags = collections.Counter()
        self.data = []
        self.feed(page)
        self.close()
        for data in self.data:
            json.loads(data, object_pairs_hook=no_twice)

    def handle_starttag(self, tag, attributes):
        self.tags[tag, tuple(name for name, _ in attributes)] += 1
        assert not any(name.startswith("on") for name, _ in attributes), attributes
        self.is_data = tag == "script" and ("type", "application/json") in attributes

    def handle_data(self, data):
        if self.cdata_elem == "script" and self.is_data:
            assert "<" not in data
            self.data.append(data)


def html_page(output):
    """Its elements, by kind."""
    page = Page(text(output))
    assert page.tags["html", ("lang",)] == 1, page.tags
    return page.tags


LABEL = r'[a-z_]+="(?:[^"\\]|\\[\\"n])*"'


def prometheus(output):
    lines = text(output).splitlines()
    seen = set()
    for line in lines:
        if not line.startswith("# "):
            assert re.fullmatch(rf"([a-z_]+)(\{{{LABEL}(,{LABEL})*\}})? [0-9.e+-]+", line), line
            assert line.rsplit(" ", 1)[0] not in seen, line
            seen.add(line.rsplit(" ", 1)[0])
        else:
            assert re.fullmatch(r"# ((HELP|TYPE|UNIT) [a-z_]+ .+|EOF)", line), line


def collapsed(output):
    for line in text(output).splitlines():
        assert re.fullmatch(r"[^;]+(;[^;]+)* [0-9]+", line), line


def heaptrack(output):
    for line in text(output).splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "s":
            size, _, name = rest.partition(" ")
            assert int(size, 16) == len(name.encode()), line
        elif kind != "X":
            assert re.fullmatch(r"[a-zA-Z+-]( [0-9a-f]+)*", line), line


def fields(message):
    """Number and value of each field of a message of protobuf."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if message[at - 1] < 128:
                return value
    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        else:
            assert key & 7 == 2, key
            size = number()
            at += size
            assert at <= len(message)
            yield key >> 3, message[at - size:at]


def pprof(output):
    message = gzip.decompress(output) if output.startswith(b"\x1f\x8b") else output
    texts = [value for number, value in fields(message) if number == 6]
    assert texts[0] == b""
    for each in texts:
        text(each)


def nothing(output):
    assert output == b"", output


def anything(output):
    """Binary, or not tarn's: the output of the program itself."""


# ---- the table ----

# What is put in place of a word: {a}, {b}: profiles; {out}: a file to write, read by the row's last reader; {plan}; {program} a
# program; {pid}: a process that runs it; {peer}: a process that answers anything at its control socket; {recorder}: one for which
# somebody answers anything in place of its recorder.
Row = collections.namedtuple("Row", "words form file codes", defaults=(None, (0,)))
RUNS = "-r 1 -w 0 --touch 0"
ROWS = [Row(*row) for row in (
    ("show -n 0 {a}", text), ("show --full-names {a}", text), ("show --json -n 0 {a}", json_object),
    ("show --by pinned {a}", text, None, (0, 125)), ("show --by pinned --json {a}", json_object, None, (0, 125)),
    ("show --by tree {a}", text), ("show --by tree --inverted {a}", text), ("show --by tree --json {a}", json_object),
    ("show --by rss {a}", text), ("show --by rss --over-time {a}", text), ("show --by rss --json -n 0 {a}", json_object),
    ("show --by leaks {a}", text, None, (0, 1, 125)), ("show --by leaks --reachable {a}", text, None, (0, 1, 125)),
    ("show --by leaks --json {a}", json_object, None, (0, 1, 125)),
    ("diff {a} {b}", text), ("diff --json {a} {b}", json_object),
    ("advise {a}", text), ("advise --plan {out} {a}", text, json_object), ("advise --json {a}", json_object),
    ("report {a} -o -", html_page), ("report --before {b} {a} -o -", html_page), ("report --no-source {a} -o {out}", text, html_page),
    ("report --json {a} {b} -o {out}", json_object, html_page), ("merge {a} {b} -o {out}", text, anything),
    ("merge --json {a} {b} -o {out}", json_object, anything),
    ("export --json {a}", json_object), ("export --collapsed {a}", collapsed), ("export --prometheus {a}", prometheus),
    ("export --heaptrack {a}", heaptrack), ("export --sqlite {a} -o {out}", nothing, anything, (0, 125)), ("export --pprof {a}", pprof), ("export --pprof {a} -o {out}", nothing, pprof),
    ("prove -r 1 --trust-file --only keep-memory --no-keep {a}", text, None, (0, 125)),
    ("prove -r 1 --trust-file --only keep-memory --json {a}", json_object, None, (0, 125)),
    ("prove -r 1 --trust-file --plan {plan} {a}", text, None, (0, 125)), ("prove -r 1 --trust-file --plan {plan} --json {a}", json_object, None, (0, 125)),
    ("run --plan {plan} --trust-file -- {program}", anything), ("run --black-box boxes -- {program}", anything), ("run --push otlp=http://127.0.0.1:9 -- {program}", anything),
    (f"compare {RUNS} --only system -- {{program}}", text), (f"compare {RUNS} --json --only system -- {{program}}", json_object),
    (f"compare {RUNS} --tail --only system -- {{program}}", text), (f"compare {RUNS} --tail --json --only system -- {{program}}", json_object),
    ("profile --mode full -o {out} -- {program}", nothing, anything), ("profile --json -r 2 --mode faults -o {out} -- {program}", nothing),
    ("profile --prove -o {out} -- /bin/true {evil}", text, anything, (0, 125)),
    ("run --stats -- {program}", anything), ("run --stats --json -- {program}", anything),
    ("top --once --for 3 -- {program} stay now", text), ("top --once --json --for 3 -- {program} stay now", json_lines),
    ("top --once {peer}", text), ("top --once --json {peer}", json_lines),
    ("cost -r 1 --only {markup} --malloc {markup_way} 64K", text), ("cost -r 1 --only {markup} --malloc {markup_way} --json 64K", json_object),
    ("cost -r 1 --malloc {evil_way} 64K", nothing, None, (2,)), ("compare --malloc {evil_way} -- true", nothing, None, (2,)),
    ("cost --watch --for 0.2 --interval 0.1 {pid}", text), ("cost --watch --json --for 0.2 --interval 0.1 {pid}", json_lines),
    ("attach --for 0.3 -o {out} {pid}", text, anything, (0, 125)), ("attach --json --for 0.3 -o {out} {pid}", text, anything, (0, 125)),
    ("attach --dump {recorder}", text, None, (0, 125)), ("attach --dump --json {recorder}", text, None, (0, 125)),
    ("control --samples heap -o {out} {peer}", text, pprof), ("control --samples allocs --json -o {out} {peer}", json_object, pprof),
    ("attach --stop {recorder}", text, None, (0, 125)), ("attach --stop --json {recorder}", text, None, (0, 125)),
    ("control --metrics {peer}", prometheus), ("control --metrics {peer} {peer}", text), ("control --metrics --json {peer}", json_object),
    ("control --trim {peer}", text), ("control --trim --json {peer}", json_object), ("control {peer}", text), ("control --json {peer}", json_object),
    ("control {peer} decay_ms=1", text),
    ("serve --listen 127.0.0.1:0 {evil}", text), ("serve --listen 127.0.0.1:0 --json {peer}", json_object),
    ("serve --listen 127.0.0.1:0 --black-box {out} {peer}", text), ("serve --listen 127.0.0.1:0 --push otlp=http://127.0.0.1:9 {peer}", text),
    ("serve --mcp", nothing),
    ("doctor --options", text), ("doctor --options --json", json_object), ("doctor", text, None, (0, 1)), ("doctor --json", json_object, None, (0, 1)),
)]
# Options that change what is done, not how it is written. All others need a row.
NOT_A_FORM = set("""--help --color --version --process --metric --filter --rows --min --depth --fail-if --suppressions --at
--rounds --only --with-build --number --open --output --load --events --seed --malloc --stdin --timeout --ready-port --ready-command
--warmup --touch --ignore-failure --show-output --mode --sample --checkpoint --no-events --quiet --debug-path --paused --interval --for
--program-output --keep --listen --host-name
--push-interval --push-label --push-headers --push-ca""".split())


class foreign(Base):
    def setUp(self):
        super().setUp()
        self.files = 0
        os.mkdir(self.path("cwd"))

    @functools.cached_property
    def program(self):
        path = self.compile("plain", PROGRAM, "-O1", "-g", "-pthread")
        evil = self.path(TEXT)
        os.rename(path, evil)
        return evil

    def new_file(self):
        self.files += 1
        return self.path(f"{self.files}{TEXT}")

    @contextlib.contextmanager
    def running(self):
        process = subprocess.Popen([self.program, "stay", "now"])
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()

    def peer(self):
        answer = {"metrics": body(b"# HELP tarn_x " + SENT + b"\ntarn_a{b=\"" + SENT.replace(b'"', b'\\"') + b"\"} 1\ntarn_c 2\n"),
                  "stats": body(json.dumps({TEXT.encode("utf-8", "replace").decode(): "\u202e"}, ensure_ascii=False).encode()),
                  "options": body(SENT + b"\t" + SENT + b"\t" + SENT + b"\tyes\t" + SENT), "set": body(SENT), "trim": body(b"1\n"),
                  "profile": body(b"\x32\x00\x32" + bytes([len(EVIL)]) + EVIL)}
        return Process(self, answer)

    def run_row(self, row, words):
        """Standard output, and the contents of the file {out}."""
        out = self.new_file()
        words = [word.replace("{out}", out) for word in words]
        variables = environment(TARN_LEVEL=TEXT, MALLOC_EVIL=TEXT, TARN_RECORDER=settings.recorder)
        process = subprocess.Popen([settings.tarn, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=variables, cwd=self.path("cwd"))
        first = b""
        if row.words.startswith("serve"):  # it goes on after its address
            first = process.stdout.readline()
            process.terminate()
        stdout, stderr = process.communicate(timeout=120)
        result = subprocess.CompletedProcess(words, process.returncode, first + stdout, stderr)
        self.assertIn(result.returncode, row.codes, (row.words, result.stderr))
        if row.form is not anything:
            text(result.stderr)
            if result.returncode == 0:
                return row.form(result.stdout), out
            text(result.stdout)
        return None, out

    def check(self, row, **words):
        """Runs a row with these words; returns what its readers say."""
        filled = [words.get(word[1:-1], word) if word.startswith("{") and word != "{out}" else word for word in row.words.split()]
        with self.subTest(row.words):
            said, out = self.run_row(row, filled)
            if row.file is not None and os.path.exists(out):
                with open(out, "rb") as file:
                    return said, row.file(file.read())
            return said, None

    def make(self, name, *kind):
        path = self.path(name)
        self.execute(settings.make_profile, path, "1000", "40", "1", "full", *kind, code=0)
        return path

    @staticmethod
    def rows(*marks):
        """Those of profiles, or with one of these words."""
        return [row for row in ROWS if any("{%s}" % mark in row.words for mark in marks or ("a",))]

    def test_the_table_is_complete(self):
        for verb, about in json.loads(tarn("--print-manual", "json").stdout).items():
            words = [set(row.words.split()) for row in ROWS if row.words.split()[0] == verb]
            self.assertTrue(words, f"tarn {verb} has no row")
            for option in about["options"]:
                names = set(option["names"])
                if option["positional"] or names & NOT_A_FORM:
                    continue
                self.assertTrue(any(names & each for each in words), f"tarn {verb} {option['names']} has no row")

    def test_json_is_written_in_one_place(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        for path in glob.glob(os.path.join(root, "cli", "**", "*.cpp"), recursive=True):
            if not path.endswith("show/json_output.cpp"):
                self.assertNotIn(".dump(", self.read(path).replace("attached.dump(", ""), path + ": use json_text()")

    def test_profiles(self):
        evil = self.make(f"a{TEXT}.prof", "hostile")
        harmless = self.make("harmless.prof")
        others = [shutil.copy(each, self.path(f"other{number}.prof")) for number, each in enumerate((evil, harmless))]
        for row in self.rows():
            said, file = self.check(row, a=evil, b=others[0])
            if html_page in (row.form, row.file):  # names have made no elements
                self.assertEqual(said if row.form is html_page else file, self.check(row, a=harmless, b=others[1])[row.form is not html_page])

    def test_profiles_of_a_program(self):
        path = self.path(f"recorded{TEXT}.prof")
        said = self.execute(settings.tarn, "profile", "--mode", "full", "-o", path, "--", self.program, TEXT,
                            variables=dict(MALLOC_EVIL=TEXT), code=0, text=False)
        text(said.stderr)
        other = shutil.copy(path, self.path("other.prof"))
        for row in self.rows():
            self.check(row, a=path, b=other)

    def test_programs(self):
        plan = self.write("plan" + TEXT, json.dumps({"tarn_plan": 1, "variables": {"A": "1\x1b[31m\u202e"}, "program": "\x1b[31m"}))
        with self.running() as pid:
            for row in self.rows("program", "pid", "evil", "evil_way", "markup"):
                self.check(row, plan=plan, program=self.program, pid=str(pid), evil=TEXT, evil_way=f"{TEXT}={settings.library}",
                           markup=MARKUP, markup_way=f"{MARKUP}={settings.library}")

    def test_peers(self):
        peer = self.peer()
        program = self.launch("sleep", "600")
        answer = {"files": [{"path": "/tmp/\x1b[2J\u202e"}], "\x9b31m": ["\u2028"], "problem": "\x1b]0;t\x07\nforged", "advice": "\x7f"}
        Recorder(self, str(program.pid), json.dumps(answer, ensure_ascii=False).encode())
        for row in self.rows("peer", "recorder"):
            self.check(row, peer=str(peer.pid), recorder=str(program.pid))

    def test_this_system(self):
        for row in ROWS:
            if "{" not in row.words.replace("{out}", ""):
                self.check(row)

    def test_names_of_files(self):
        """Where tarn chooses the name, it is printable, and in the folder."""
        folder = self.path("cwd")
        for name in (TEXT, "x" * 250, "\x01" * 250, "..."):
            program = self.path(name)
            os.symlink("/bin/true", program)
            result = self.execute(settings.tarn, "profile", "--", program, cwd=folder, code=0, text=False)
            text(result.stderr)
            made = os.listdir(folder)
            self.assertEqual(len(made), 1)
            text(os.fsencode(made[0]))
            os.unlink(os.path.join(folder, made[0]))
