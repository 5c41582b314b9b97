# SPDX-License-Identifier: MIT
"""End-to-end: `tarn control --metrics`, `serve`, `trim`, `set`, `dump --format pprof` and `top`, which ask a running process, with the
real library."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from cost_test import NOBODY
from harness import Base, environment, settings, tarn

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples/monitoring"

PROGRAM = """
import sys, time
rows = [bytes(1000) for i in range(20000)]
print("ready", flush=True)
for line in sys.stdin:
    if line == "free\\n": rows.clear()
    print("done", flush=True)
"""


class Process:
    """A program on tarn with an open door."""

    def __init__(self, test, program=PROGRAM, **variables):
        self.process = subprocess.Popen([sys.executable, "-u", "-c", program], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE,
                                        env=environment(LD_PRELOAD=settings.library, TARN_CONTROL=test.doors,
                                                        PYTHONMALLOC="malloc", **variables))
        test.addCleanup(self.end)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = str(self.process.pid)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Server:
    def __init__(self, test, *words, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([settings.tarn, "serve", "--listen", listen, *words], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        test.addCleanup(self.end)
        line = self.process.stdout.readline()
        if not line:
            error = self.process.stderr.read()
            if "libmicrohttpd" in error or "libcurl" in error:
                raise unittest.SkipTest(error)
            raise AssertionError(error)
        self.url = line.strip()
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def get(self, path, **headers):
        """Status, type, text."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.status = self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def figures(text):
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}


class ControlBase(Base):
    def setUp(self):
        super().setUp()
        self.doors = self.path("doors")
        if len(self.doors) > 80:
            self.skipTest("the temporary folder's name is too long for a socket")


class control(ControlBase):
    def test_metrics_have_the_heaps_figures(self):
        process = Process(self)
        text = tarn("control", "--metrics", process.pid).stdout
        self.assertTrue(text.endswith("# EOF\n"))
        all_figures = figures(text)
        self.assertGreater(all_figures["tarn_in_use_bytes"], 20000 * 1000)
        self.assertGreater(all_figures["tarn_process_resident_memory_bytes"], all_figures["tarn_in_use_bytes"] / 2)
        self.check_text(text)

    def check_text(self, text):
        """What the format demands: a type before its samples, counters in _total, units at the end, each sample once."""
        family, kind, seen, families = None, None, set(), set()
        for line in text.splitlines()[:-1]:
            if line.startswith("# TYPE "):
                _, _, family, kind = line.split(" ")
                self.assertNotIn(family, families)
                families.add(family)
            elif line.startswith("# UNIT "):
                self.assertTrue(family.endswith("_" + line.split(" ")[3]))
            elif line.startswith("# HELP "):
                self.assertEqual(line.split(" ")[2], family)
            else:
                name = line.split("{")[0].split(" ")[0]
                self.assertEqual(name, family + ("_total" if kind == "counter" else ""))
                sample = line.rsplit(" ", 1)[0]
                self.assertNotIn(sample, seen)
                seen.add(sample)

    def test_metrics_of_two_processes_have_labels(self):
        one, two = Process(self, TARN_SLOW_CALLS="on"), Process(self, TARN_SLOW_CALLS="on")
        text = tarn("control", "--metrics", one.pid, two.pid).stdout
        self.check_text(text)
        for process in (one, two):
            self.assertIn(f'tarn_in_use_bytes{{pid="{process.pid}",program="', text)
            self.assertRegex(text, f'tarn_slow_allocations_total{{pid="{process.pid}",program="[^"]*",thread="[^"]+",le="')

    def test_trim_gives_back_what_is_free(self):
        process = Process(self, TARN_DECAY_MS="-1")
        process.ask("free")
        result = json.loads(tarn("control", "--trim", "--json", process.pid).stdout)
        self.assertGreater(result["given_back_bytes"], 10 << 20)
        self.assertIn("given back:", tarn("control", "--trim", "--keep", "1M", process.pid).stdout)

    def test_set_changes_and_shows_options(self):
        process = Process(self)
        self.assertEqual(tarn("control", process.pid, "decay_ms=50", "TARN_CACHE_BUDGET=5M").stdout,
                         "decay_ms=50\ncache_budget=5M\n")
        table = {row["name"]: row for row in json.loads(tarn("control", "--json", process.pid).stdout)}
        self.assertEqual((table["decay_ms"]["value"], table["decay_ms"]["source"]), ("50", "control"))
        self.assertFalse(table["control"]["settable"])
        self.assertIn("only before the program starts", tarn("control", process.pid).stdout)

    def test_set_says_what_is_wrong(self):
        process = Process(self)
        self.assert_refused(tarn("control", process.pid, "bogus=1"), 125, "is no option", "decay_ms")
        self.assert_refused(tarn("control", process.pid, "decay_ms=soon"), 125, "milliseconds", "it stays 1000")
        self.assert_refused(tarn("control", process.pid, "control=off"), 125, "while the program runs")
        self.assert_refused(tarn("control", process.pid, "decay_ms"), 2, "OPTION=VALUE")

    def test_top_shows_rows(self):
        process = Process(self)
        result = tarn("top", "--once", process.pid, code=0)
        self.assertIn("in spans", result.stdout)
        rows = tarn("top", "--json", "--interval", "0.2", "--for", "0.7", process.pid).stdout.splitlines()
        self.assertGreaterEqual(len(rows), 2)
        self.assertGreater(json.loads(rows[0])["tarn_in_use_bytes"], 10 << 20)

    def test_dump_as_pprof_needs_samples(self):
        process = Process(self)
        path = self.path("x.pb.gz")
        result = tarn("control", "--samples", "heap", "-o", path, process.pid)
        if "is no option" in tarn("control", process.pid, "profile=on").stderr:
            self.assert_refused(result, 125, "profile")
            self.assertFalse(os.path.exists(path))

    def test_names_of_a_profile_of_addresses(self):
        """What the engine writes at the end has no names: the files that it names have them."""
        program = self.compile("names", """
            #include <cstdlib>
            static void* volatile kept;
            [[gnu::noinline]] void keep_all() { for (int i = 0; i < 3000; ++i) kept = std::malloc(1000); }
            int main() { keep_all(); }""", "-g", "-O1", "-fno-builtin")
        self.execute(program, code=0, variables={"LD_PRELOAD": settings.library, "TARN_PROFILE": "4096", "TARN_PROFILE_FILE": self.path("heap")})
        shown = tarn("show", str(next(Path(self.folder).glob("heap*"))), code=0)
        self.assertRegex(shown.stdout, r"keep_all +<stdin>:4")

    def test_a_process_without_a_door(self):
        for pid, *phrases in ((str(os.getpid()), "no control socket", "TARN_CONTROL=on"), ("4194303", "has ended, or does not exist")):
            self.assert_refused(tarn("control", "--metrics", pid), 125, *phrases)
        self.assert_refused(tarn("control", "--metrics", "x"), 2, "not a process id")
        for word in ("0", "99999999999"):
            self.assert_refused(tarn("top", "--once", word), 2, "not a process id", "pgrep")

    def test_a_process_that_has_just_begun_is_waited_for(self):
        # The program becomes one with a control socket half a second after its start.
        late = subprocess.Popen(["sh", "-c", 'sleep 0.5; exec env "$@"', "sh", "LD_PRELOAD=" + settings.library,
                                 "TARN_CONTROL=" + self.doors, "sleep", "60"], env=environment())
        self.addCleanup(late.wait)
        self.addCleanup(late.kill)
        self.assertIn("tarn_in_use_bytes", tarn("control", "--metrics", str(late.pid)).stdout)

    def test_a_stopped_process_and_one_that_ends(self):
        process = Process(self)
        process.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.process.pid, os.WSTOPPED | os.WNOWAIT)
        begin = time.monotonic()
        self.assert_refused(tarn("control", "--metrics", process.pid), 125, "stopped", f"kill -CONT {process.pid}")
        self.assertLess(time.monotonic() - begin, 10)
        process.process.send_signal(signal.SIGCONT)
        self.assertEqual(tarn("control", "--metrics", process.pid).returncode, 0)
        process.end()
        self.assert_refused(tarn("control", "--trim", process.pid), 125, "has ended, or does not exist")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_another_user_is_refused(self):
        process = Process(self)
        os.chmod(self.folder, 0o755)
        binary = shutil.copy(settings.tarn, self.path("tarn"))
        os.chmod(binary, 0o755)
        result = self.execute(binary, "control", "--metrics", process.pid, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertIn("another user", result.stderr)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root")
    def test_in_other_namespaces(self):
        command = (f"mount -t tmpfs none /tmp && mount -t proc proc /proc && "
                   f"TARN_CONTROL=on LD_PRELOAD={settings.library} exec sleep 60")
        library_is_hidden = settings.library.startswith("/tmp/")
        outer = self.launch("unshare", "-mnpf", "sh", "-c", command, stderr=subprocess.PIPE)
        for _ in range(200):
            time.sleep(0.05)
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            result = tarn("control", "--metrics", children[0]) if children else None
            if result and result.returncode == 0:
                break
            if outer.poll() is not None or library_is_hidden:
                self.skipTest("no namespaces here")
        subprocess.run(["kill", "-9", children[0]], check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tarn_in_use_bytes", result.stdout)


class serve(ControlBase):
    def test_serves_both_text_formats(self):
        process = Process(self)
        server = Server(self, process.pid)
        status, kind, text = server.get("metrics", Accept="application/openmetrics-text; version=1.0.0")
        self.assertEqual(status, 200)
        self.assertIn("openmetrics-text", kind)
        self.assertTrue(text.endswith("# EOF\n"))
        self.assertIn(f'tarn_up{{pid="{process.pid}"}} 1', text)
        status, kind, text = server.get("metrics")
        self.assertIn("version=0.0.4", kind)
        self.assertIn("# TYPE tarn_returned_bytes_total counter\n", text)
        if shutil.which("promtool"):
            check = self.execute("promtool", "check", "metrics", input=text)
            self.assertNotIn("error", check.stdout + check.stderr)

    def test_other_pages(self):
        server = Server(self, Process(self).pid)
        self.assertEqual(server.get("healthz")[:1] + server.get("healthz")[2:], (200, "ok\n"))
        self.assertIn("<canvas", server.get("")[2].replace("createElement(\"canvas\")", "<canvas"))
        self.assertEqual(server.get("nothing")[0], 404)
        self.assertIn(server.get("debug/pprof/heap")[0], (200, 503))

    # Newer versions of go build the tool at its first use, which takes a minute; the user's folder has it then.
    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_pprof_opens_the_profiles(self):
        server = Server(self, Process(self, TARN_PROFILE="4096").pid)
        for page, shown in (("heap", "inuse_space"), ("allocs", "alloc_space")):
            # Without the program's files: the names are in the profile.
            result = self.execute("go", "tool", "pprof", "-top", "-symbolize=none", server.url + "debug/pprof/" + page,
                                  timeout=200, variables=dict(PPROF_TMPDIR=self.folder), code=0)
            self.assertIn("Type: " + shown, result.stdout)
            self.assertRegex(result.stdout, r"\b_?Py[A-Z]")
            self.assertIn("File: " + os.path.basename(os.path.realpath(sys.executable)), result.stdout)
            self.assertRegex(result.stdout, r"Showing nodes accounting for [1-9]")

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_pprof_opens_page_faults(self):
        process = Process(self, "import time\nprint('ready', flush=True)\n"
                                "while True:\n    bytes(b'x') * (8 << 20)\n    time.sleep(0.05)", TARN_DECAY_MS="0")
        server = Server(self, process.pid)
        status, _, text = server.get("debug/pprof/faults?seconds=0")
        self.assertEqual(status, 400, text)
        result = self.execute("go", "tool", "pprof", "-top", "-symbolize=none", server.url + "debug/pprof/faults?seconds=2",
                              timeout=200, variables=dict(PPROF_TMPDIR=self.folder))
        if "503" in result.stderr:
            self.skipTest(server.get("debug/pprof/faults?seconds=1")[2])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Type: faults", result.stdout)
        shown = float(re.search(r"Showing nodes accounting for ([0-9.]+)", result.stdout)[1])
        self.assertGreater(shown, 1000)

    def test_an_answer_may_take_longer_than_clients_may_be_idle(self):
        server = Server(self, Process(self).pid)
        self.assertIn(server.get("debug/pprof/faults?seconds=11")[0], (200, 503))

    def test_the_end_does_not_wait_for_page_faults(self):
        server = Server(self, Process(self).pid)
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
            client.sendall(b"GET /debug/pprof/faults?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(1)
            begin = time.monotonic()
            server.end()
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(server.status, 0)

    def test_a_process_that_ends_is_down(self):
        process = Process(self)
        server = Server(self, process.pid)
        process.end()
        self.assertIn(f'tarn_up{{pid="{process.pid}"}} 0', server.get("metrics")[2])
        self.assertEqual(server.get("healthz")[0], 503)

    def test_a_name_stands_for_processes_that_come_later(self):
        name = os.path.basename(sys.executable)[:15]
        server = Server(self, name)
        process = Process(self)
        self.assertIn(f'tarn_up{{pid="{process.pid}"}} 1', server.get("metrics")[2])

    def test_refuses_other_hosts_and_methods(self):
        server = Server(self, Process(self).pid)
        self.assertEqual(server.get("metrics", Host="example.com")[0], 403)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", "/metrics", body="x" * 100)
        self.assertEqual(connection.getresponse().status, 405)

    def test_has_no_symbols_for_pprof(self):
        server = Server(self, Process(self).pid)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self.addCleanup(connection.close)
        for length in (0, 100, 300000):
            connection.request("POST", "/debug/pprof/symbol", body="0x1+" * (length // 4))
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (200, b"num_symbols: 0\n"))

    def test_clients_that_send_a_letter_at_a_time_keep_nobody_out(self):
        server = Server(self, Process(self).pid)
        slow = []
        for _ in range(40):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            self.addCleanup(client.close)
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
            slow.append(client)
        self.assertEqual(server.get("healthz")[0], 200)
        last = slow[-1]
        begin = time.monotonic()
        try:
            while time.monotonic() - begin < 30:
                last.sendall(b"X")
                last.settimeout(1)
                try:
                    if not last.recv(100):
                        break
                except TimeoutError:
                    pass
        except OSError:
            pass
        self.assertLess(time.monotonic() - begin, 25)
        self.assertEqual(server.get("healthz")[0], 200)

    def test_names_on_every_address(self):
        server = Server(self, "--host-name", "metrics.example", Process(self).pid, listen="0.0.0.0:0")
        server.url = f"http://127.0.0.1:{server.port}/"
        for host, status in (("attacker.example", 403), ("metrics.example", 200), ("metrics.example:80", 200), ("10.0.0.1", 200)):
            self.assertEqual(server.get("healthz", Host=host)[0], status, host)
        for page in ("metrics", "debug/pprof/faults?seconds=0.1"):
            self.assertEqual(server.get(page, **{"Sec-Fetch-Site": "cross-site"})[0], 403)
            self.assertEqual(server.get(page, Origin="http://attacker.example")[0], 403)
        self.assertEqual(server.get("", **{"Sec-Fetch-Site": "cross-site"})[0], 200)
        self.assertEqual(server.get("metrics", **{"Sec-Fetch-Site": "same-origin"})[0], 200)

    def test_survives_garbage_and_clients_that_hang(self):
        server = Server(self, Process(self).pid)
        hanging = []
        for index in range(20):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=30)
            self.addCleanup(client.close)
            client.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 100 * index)
            hanging.append(client)
        for text in (b"\0" * 1000, b"GET " + b"/" * 100000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50000 + b"\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
                try:
                    client.sendall(text)
                    client.recv(1000)
                except OSError:
                    pass
        self.assertEqual(server.get("metrics")[0], 200)

    def test_addresses(self):
        process = Process(self)
        for listen in ("here", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "name:80"):
            self.assert_refused(tarn("serve", "--listen", listen, process.pid), 2, "--listen")
            # What is wrong with the request comes before what is wrong with the process.
            self.assert_refused(tarn("serve", "--listen", listen, str(os.getpid())), 2, "--listen")
        self.assert_refused(tarn("serve", "4194303"), 125, "has ended, or does not exist")

    def test_each_reason_why_it_cannot_listen_has_its_advice(self):
        process = Process(self)
        taken = Server(self, process.pid)  # skips where there is no libmicrohttpd
        chosen = "--listen 127.0.0.1:0 lets the system choose"
        self.assert_refused(tarn("serve", "--listen", f"127.0.0.1:{taken.port}", process.pid), 125, "in use", chosen)
        for listen in ("192.0.2.1:0", "[2001:db8::1]:0"):
            self.assert_refused(tarn("serve", "--listen", listen, process.pid), 125, f"{listen}: cannot listen", "no such address")
        if int(self.read("/proc/sys/net/ipv4/ip_unprivileged_port_start")) > 80:
            drop = ("setpriv", "--bounding-set", "-net_bind_service") if os.getuid() == 0 else ()
            result = self.execute(*drop, settings.tarn, "serve", "--listen", "127.0.0.1:80", process.pid)
            self.assert_refused(result, 125, "Permission denied", "a port of 1024 or more")

    def test_ends_by_a_signal(self):
        server = Server(self, Process(self).pid)
        server.end()
        self.assertEqual(server.status, 0)

    def test_the_rules_and_the_configuration_are_valid(self):
        json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
        if not shutil.which("promtool"):
            self.skipTest("no promtool (package prometheus)")
        for words in (("check", "rules", "tarn-rules.yml"), ("check", "config", "prometheus.yml"),
                      ("test", "rules", "tarn-rules-test.yml")):
            result = self.execute("promtool", *words, cwd=EXAMPLES)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_rules_and_dashboard_name_metrics_that_exist(self):
        process = Process(self)
        text = tarn("control", "--metrics", process.pid).stdout
        known = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
        known |= {"tarn_pool_bytes", "tarn_up"}  # this program has no pools
        for file in ("tarn-rules.yml", "grafana-dashboard.json"):
            named = set(re.findall(r"\btarn_[a-z_]+\b", (EXAMPLES / file).read_text()))
            self.assertEqual(named - known, set(), file)

    @unittest.skipUnless(shutil.which("prometheus"), "no prometheus")
    def test_prometheus_has_the_figure_that_metrics_prints(self):
        process = Process(self, TARN_DECAY_MS="-1")
        server = Server(self, process.pid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = self.write("prometheus.yml", "global: { scrape_interval: 1s }\nscrape_configs:\n  - job_name: tarn\n"
                            f"    static_configs: [{{ targets: ['127.0.0.1:{server.port}'] }}]\n")
        log = open(self.path("log"), "w", encoding="utf-8")
        self.addCleanup(log.close)
        self.launch("prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
                    f"--storage.tsdb.path={self.folder}/data", stdout=log, stderr=log)
        asked = figures(tarn("control", "--metrics", process.pid).stdout)
        for name in ("tarn_in_use_bytes", "tarn_refills_total", "tarn_span_free_bytes"):
            self.assertEqual(self.query(port, name), asked[name], name)

    def query(self, port, name):
        for _ in range(60):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={name}", timeout=30) as answer:
                    result = json.load(answer)["data"]["result"]
                if result:
                    return float(result[0]["value"][1])
            except OSError:
                pass
            time.sleep(0.5)
        self.fail(f"prometheus has no {name}")
