# SPDX-License-Identifier: MIT
"""End-to-end: `tarn serve --push`, with a server in this process as the store."""
import base64
import contextlib
import gzip
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

from control_test import ControlBase, Server, figures
from harness import environment, settings, tarn

# Keeps 8 MiB at one place and 2 MiB, or as many as the first word says, at another one.
SERVICE = """
#include <cstdio>
#include <cstdlib>
#include <cstring>

void* volatile kept;
[[gnu::noinline]] void keep_rows(long bytes) {
  for (long i = 0; i < bytes / 1024; ++i) { void* const p = std::malloc(1000); std::memset(p, 1, 1000); kept = p; }
}
[[gnu::noinline]] void keep_index(long bytes) {
  for (long i = 0; i < bytes / 1024; ++i) { void* const p = std::malloc(1000); std::memset(p, 2, 1000); kept = p; }
}
int main(int count, char** words) {
  keep_rows(8 << 20);
  keep_index(std::atol(count > 1 ? words[1] : "2") << 20);
  kept = std::malloc(64 << 20);  // not live: no store may get it
  std::free(kept);
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();
}
"""


def fields(message):
    """The fields of a protobuf message, in order: number, and an integer or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 1:
            yield tag >> 3, int.from_bytes(message[at:at + 8], "little")
            at += 8
        else:
            assert tag & 7 == 2, tag
            length = varint()
            assert at + length <= len(message)
            yield tag >> 3, message[at:at + length]
            at += length


def all_of(message, number):
    return [value for each, value in fields(message) if each == number]


def one_of(message, number, default=0):
    return (all_of(message, number) or [default])[-1]


def numbers(packed):
    """Of a packed field: as if each byte string were fields without tags."""
    out, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
    return out


def pprof_figures(packed):
    """Of a profile of pprof: for each sample type the total, and each function's part (once for each sample)."""
    profile = gzip.decompress(packed)
    strings = [each.decode() for each in all_of(profile, 6)]
    functions = {one_of(each, 1): strings[one_of(each, 2)] for each in all_of(profile, 5)}
    places = {one_of(each, 1): [functions[one_of(line, 1)] for line in all_of(each, 4)] for each in all_of(profile, 4)}
    types = [strings[one_of(each, 1)] for each in all_of(profile, 1)]
    result = {name: {"": 0} for name in types}
    for sample in all_of(profile, 2):
        values = numbers(one_of(sample, 2))
        assert len(values) == len(types)
        for name, value in zip(types, values):
            add(result[name], {each for number in numbers(one_of(sample, 1)) for each in places[number]}, value)
    return result


def add(result, names, value):
    result[""] += value
    for name in names:
        result[name] = result.get(name, 0) + value


def otlp_figures(packed):
    """The same of a request of OTLP; and the attributes of its process."""
    request = gzip.decompress(packed)
    tables = one_of(request, 2)
    strings = [each.decode() for each in all_of(tables, 5)]
    functions, lines, stacks = [all_of(tables, number) for number in (3, 2, 7)]
    for table in (1, 2, 3, 4, 5, 6, 7):
        assert all_of(tables, table)[0] == b"", table
    names = [[strings[one_of(functions[one_of(line, 1)], 1)] for line in all_of(each, 3)] for each in lines]
    resource = one_of(request, 1)
    attributes = {one_of(each, 1).decode(): one_of(one_of(each, 2), 1).decode() for each in all_of(one_of(resource, 1), 1)}
    result = {}
    scope = one_of(resource, 2)
    assert one_of(one_of(scope, 1), 1) == b"tarn"
    for profile in all_of(scope, 2):
        figures_of_type = result[strings[one_of(one_of(profile, 1), 1)]] = {"": 0}
        assert abs(one_of(profile, 3) / 1e9 - time.time()) < 600
        for sample in all_of(profile, 2):
            [value] = numbers(one_of(sample, 4))
            path = numbers(one_of(stacks[one_of(sample, 1)], 1))
            add(figures_of_type, {name for place in path for name in names[place]}, value)
    # The build-id of each mapping.
    table = all_of(tables, 6)
    ids = [one_of(one_of(table[index], 2), 1).decode() for each in all_of(tables, 1) for index in numbers(one_of(each, 5, b""))]
    assert all(strings[one_of(each, 1)] == "process.executable.build_id.gnu" for each in table[1:])
    return result, attributes, ids


class Store:
    """Takes what is pushed. `answer`: a status, or a function that returns one and may take its time."""

    def __init__(self, test, answer=200, context=None):
        self.requests = []
        self.answer = answer
        self.headers = {}
        self.body = b"no\n"
        self.hangs_after = None  # so many bytes of the body; None: it does not
        self.raw = None  # bytes in place of an answer, and then the end of the connection
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer.answer() if callable(outer.answer) else outer.answer
                outer.requests.append((self.path, dict(self.headers), body))
                if outer.raw is not None:
                    self.wfile.write(outer.raw)
                    self.close_connection = True
                    return
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in outer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(outer.body)))
                    self.end_headers()
                    self.wfile.write(outer.body[:outer.hangs_after])
                    if outer.hangs_after is not None:
                        time.sleep(60)

            def log_message(self, *_):
                pass

        class QuietServer(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_):
                pass

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.server.server_close)
        test.addCleanup(self.server.shutdown)
        self.address = f"{'https' if context else 'http'}://127.0.0.1:{self.server.server_port}"

    def wait(self, count, seconds=60):
        end = time.monotonic() + seconds
        while len(self.requests) < count:
            assert time.monotonic() < end, f"{len(self.requests)} requests"
            time.sleep(0.05)
        return self.requests[:count]


class push(ControlBase):
    def setUp(self):
        super().setUp()
        os.environ["no_proxy"] = "*"
        self.addCleanup(os.environ.pop, "no_proxy")

    def service(self, *words, **variables):
        program = self.path("shop")
        if not os.path.exists(program):
            self.compile("shop", SERVICE, "-O1", "-g")
        process = self.launch(program, *words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=environment(LD_PRELOAD=settings.library, TARN_CONTROL=self.doors, TARN_PROFILE="4096", **variables))
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def serve(self, process, store, *words, interval=1, **variables):
        with unittest.mock.patch.dict(os.environ, variables):
            server = Server(self, str(process.pid), "--push", store, "--push-interval", str(interval), *words)
        return server

    def counted(self, server, name):
        text = server.get("metrics", Accept="application/openmetrics-text")[2]
        return sum(value for key, value in figures(text).items() if key.startswith(f"tarn_push_{name}"))

    def wait_for(self, what, seconds=40):
        end = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)

    def said(self, server):
        """Its standard error, after its end."""
        if server.process.poll() is None:
            server.process.terminate()
        server.process.wait()
        return server.process.stderr.read()

    def check_figures(self, sent, process):
        """Live memory by place, as the process says itself; and nothing of what is not live."""
        self.assertEqual(set(sent), {"inuse_objects", "inuse_space", "inuse_resident"})
        self.execute(settings.tarn, "control", "--samples", "heap", "-o", "own.pb.gz", str(process.pid), code=0)
        with open(self.path("own.pb.gz"), "rb") as file:
            own = pprof_figures(file.read())
        self.assertGreater(own["alloc_space"][""], 1.5 * own["inuse_space"][""])
        for name in ("inuse_objects", "inuse_space"):
            self.assertEqual(sent[name][""], own[name][""])
        for place, mib in (("keep_rows(long)", 8), ("keep_index(long)", 2)):
            self.assertLess(abs(sent["inuse_space"][place] / (mib << 20) - 1), 0.25, place)

    def test_bodies_of_pyroscope_and_parca(self):
        process = self.service(OTEL_SERVICE_NAME="shop", OTEL_RESOURCE_ATTRIBUTES="service.version=1.2%2Bx, deployment.environment=test,__name__=x,._unit__=x,"
                               "service_name=other,process.pid=1",
                               HOSTNAME="box-7", KUBERNETES_SERVICE_HOST="10.0.0.1", SECRET="word")
        for kind, path in (("pyroscope", "/push.v1.PusherService/Push"), ("parca", "/under/api/profiles/writeraw")):
            store = Store(self)
            server = self.serve(process, f"{kind}={store.address}{'/under/' if kind == 'parca' else ''}", "--push-label", "team=search")
            [(asked, headers, body)] = store.wait(1)
            self.assertEqual((asked, headers["Content-Type"]), (path, "application/json"))
            self.assertNotIn(b"word", body)
            [series] = json.loads(body)["series"]
            labels = series["labels"]["labels"] if kind == "parca" else series["labels"]
            labels = {each["name"]: each["value"] for each in labels}
            build_id = labels.pop("process_executable_build_id_gnu", "")
            self.assertRegex(build_id, "^([0-9a-f]{8,})?$")
            self.assertEqual(labels, {"__name__": "memory", "service_name": "shop", "service_version": "1.2+x",
                                      "deployment_environment": "test", "host_name": "box-7", "k8s_pod_name": "box-7",
                                      "process_pid": str(process.pid), "team": "search"})
            self.check_figures(pprof_figures(base64.b64decode(series["samples"][0]["rawProfile"])), process)
            self.wait_for(lambda store=store, server=server: self.counted(server, "sent_total") == len(store.requests) > 0)
            self.assertEqual(self.counted(server, "dropped"), 0)
            self.assertEqual(self.counted(server, "up"), 1)
            self.assertEqual(self.said(server), "")

    def test_what_a_store_has_is_compared_by_tarn_diff(self):
        for name, words in (("old-1", "2"), ("old-2", "2"), ("new", "10")):
            store = Store(self)
            self.serve(self.service(words), f"pyroscope={store.address}")
            with open(self.path(name + ".pb.gz"), "wb") as file:
                file.write(base64.b64decode(json.loads(store.wait(1)[0][2])["series"][0]["samples"][0]["rawProfile"]))

        def diff(*words, code):
            return self.execute(settings.tarn, "diff", "--fail-if", "live_bytes>+20%", *words, code=code).stdout
        same = diff("old-1.pb.gz", "old-2.pb.gz", code=0)
        self.assertNotIn("cost", same)
        text = diff("old-1.pb.gz", "old-2.pb.gz", "--", "new.pb.gz", code=1)
        self.assertRegex(text, r"\+(7|8|9)\.[0-9]+ MiB .*keep_index")
        self.assertNotIn("keep_rows", text)  # that is as it was
        sites = json.loads(self.execute(settings.tarn, "diff", "--json", "old-1.pb.gz", "new.pb.gz", code=0).stdout)["sites"]
        self.assertEqual(sites[0]["function"], "keep_index(long)")
        self.assertNotIn("cost", sites[0])
        self.assert_refused(self.execute(settings.tarn, "diff", "--fail-if", "cost>+1%", "old-1.pb.gz", "new.pb.gz"), 125, "cost", "live_bytes")
        self.assert_refused(self.execute(settings.tarn, "advise", "new.pb.gz"), 125, "no costs")
        self.assert_refused(self.execute(settings.tarn, "prove", "new.pb.gz"), 125, "new.pb.gz is of pprof", "tarn show, report")
        with open(self.path("new.pb.gz"), "r+b") as file:
            file.truncate(300)
        self.assert_refused(self.execute(settings.tarn, "diff", "old-1.pb.gz", "new.pb.gz"), 125, "new.pb.gz", "damaged")

    def test_body_of_otlp(self):
        process = self.service(OTEL_RESOURCE_ATTRIBUTES="service.version=0.9,service.name=other", HOSTNAME="a" + "é" * 2000)
        store = Store(self)
        self.serve(process, f"otlp={store.address}", "--push-label", "service.version=1.0")
        [(asked, headers, body)] = store.wait(1)
        self.assertEqual((asked, headers["Content-Type"], headers["Content-Encoding"]),
                         ("/v1development/profiles", "application/x-protobuf", "gzip"))
        sent, attributes, ids = otlp_figures(body)
        self.assertEqual({name: attributes[name] for name in ("service.name", "service.version", "process.pid")},
                         {"service.name": "other", "service.version": "1.0", "process.pid": str(process.pid)})
        self.assertEqual(attributes["host.name"], "a" + "é" * 499, "receivers refuse half a character")
        if "process.executable.build_id.gnu" in attributes:
            self.assertIn(attributes["process.executable.build_id.gnu"], ids)
        self.check_figures(sent, process)

    def test_headers_come_from_a_file_or_a_variable(self):
        process = self.service()
        store = Store(self)
        secret = self.write("headers", "Authorization: Bearer one\r\n\nX-Scope-OrgID: team\n")
        self.serve(process, f"pyroscope={store.address}", "--push-headers", secret, TARN_PUSH_HEADERS="Authorization: Bearer no")
        store.wait(1)
        self.write("headers", "Authorization: Bearer two\n")  # as tokens are renewed
        self.wait_for(lambda: store.requests[-1][1]["Authorization"] == "Bearer two")
        self.assertEqual(store.requests[0][1]["Authorization"], "Bearer one")
        self.assertEqual(store.requests[0][1]["X-Scope-OrgID"], "team")
        store = Store(self)
        self.serve(process, f"pyroscope={store.address}", TARN_PUSH_HEADERS="Authorization: Bearer three")
        self.assertEqual(store.wait(1)[0][1]["Authorization"], "Bearer three")

    def test_one_message_for_each_change(self):
        process = self.service()
        store = Store(self, 500)
        server = self.serve(process, f"parca={store.address}")
        store.wait(3)
        self.assertEqual(self.counted(server, "up"), 0)
        self.wait_for(lambda: self.counted(server, 'dropped_total{store="parca",reason="refused"}') >= 3)
        store.answer = 200
        self.wait_for(lambda: self.counted(server, "up") == 1)
        self.assertGreaterEqual(self.counted(server, "sent_total"), 1)
        messages = self.said(server)
        self.assertEqual(messages.count("--push parca="), 2, messages)
        self.assertIn("status 500", messages)
        self.assertIn("taken again", messages)

    def test_a_store_that_is_gone_and_comes(self):
        process = self.service()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"otlp=http://127.0.0.1:{free.getsockname()[1]}"
        server = self.serve(process, address)
        self.wait_for(lambda: self.counted(server, 'dropped_total{store="otlp",reason="unreachable"}') >= 2)
        self.assertEqual(server.get("healthz")[0], 200)
        self.assertEqual(self.said(server).count("--push otlp="), 1)

    def test_a_store_that_leads_elsewhere(self):
        process = self.service()
        for place, advice in (("https://other:4040/v1development/profiles", "it leads to https://other:4040/v1development/profiles; write --push otlp=https://other:4040"),
                              ("/sign-in\x1b", "/sign-in\\x1b, which is not followed; give --push the address of the store itself")):
            store = Store(self, 307)
            store.headers = {"Location": place}
            server = self.serve(process, f"otlp={store.address}")
            store.wait(1)
            self.wait_for(lambda server=server: self.counted(server, 'dropped_total{store="otlp",reason="refused"}') >= 1)
            messages = " ".join(self.said(server).split())
            self.assertIn("status 307", messages)
            self.assertIn(advice, messages)

    def test_an_answer_that_is_too_long_or_packed(self):
        process = self.service()
        text = b"words\n" * 100000
        for status, phrase, body, headers in ((200, "it answers with more than 4096 bytes", text, {}), (500, "it answers with status 500 (words", text, {}),
                                              (400, "it answers with status 400 (packed words)", gzip.compress(b"packed words\n"), {"Content-Encoding": "gzip"})):
            store = Store(self, status)
            store.body, store.headers = body, headers
            server = self.serve(process, f"otlp={store.address}")
            self.wait_for(lambda server=server: self.counted(server, "dropped") >= 1)
            self.assertIn(phrase, " ".join(self.said(server).split()))

    def test_a_page_is_no_receipt(self):
        """Parca has such a page at every address that it does not know."""
        process = self.service()
        for length in (1, 100000):
            store = Store(self)
            store.headers, store.body = {"Content-Type": "text/html; charset=utf-8"}, b"<html>" * length
            server = self.serve(process, f"otlp={store.address}")
            self.wait_for(lambda server=server: self.counted(server, 'dropped_total{store="otlp",reason="refused"}') >= 1)
            self.assertEqual(self.counted(server, "sent_total"), 0)
            self.assertIn("it answers with a page for people; is the address that of the store itself", " ".join(self.said(server).split()))

    def test_later_means_later(self):
        process = self.service()
        for later in ("600", "99999999999999999999", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 600))):
            store = Store(self, 429)
            store.headers = {"Retry-After": later}
            server = self.serve(process, f"otlp={store.address}")
            self.wait_for(lambda server=server: self.counted(server, 'dropped_total{store="otlp",reason="refused"}') >= 3)
            self.assertEqual(len(store.requests), 1, later)

    def test_another_reason_is_told(self):
        process = self.service()
        store = Store(self, 503)
        server = self.serve(process, f"pyroscope={store.address}")
        for status in (503, 401, 500, 401):
            store.answer = status
            store.wait(len(store.requests) + 3)
        messages = self.said(server)
        self.assertEqual(re.findall("status ([0-9]+)", messages), ["503", "401"], messages)  # the others come within a minute
        self.assertIn("--push-headers", messages)

    def test_what_an_answer_of_otlp_rejects(self):
        """It says it with the status 200."""
        process = self.service()
        rejects = (b"\x0a\x06\x08\x01\x12\x02no", b"\x0a\xff\x03\x08\x02\x12\xfa\x03" + b"\x1b]0;x\n" + b"z" * 500)
        takes = (b"", b"\x0a\x00", b"\x0a\x04\x12\x02no", b"\x0a\x06\x08\x00\x12\x02no", b"\x0a\x06\x08\x01", b"\x0a\xff\xff\xff\x0f",
                 b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01")  # the last one: -1
        for body in rejects + takes:
            store = Store(self)
            store.body = body
            server = self.serve(process, f"otlp={store.address}")
            name = 'dropped_total{store="otlp",reason="refused"}' if body in rejects else "sent_total"
            self.wait_for(lambda name=name, server=server: self.counted(server, name) >= 2)
            self.assertEqual(self.counted(server, "sent_total" if body in rejects else "dropped"), 0, body)
            self.assertEqual(self.counted(server, "up"), body in takes)
            messages = self.said(server)
            self.assertEqual(messages.count("rejects"), body in rejects, messages)
            self.assertNotIn("\x1b", messages)
            self.assertLess(len(messages), 500)
            if body == rejects[0]:
                self.assertIn("rejects 1 of the profiles (no); profiles are dropped", messages)

    def test_the_end_does_not_wait_for_a_store_that_hangs(self):
        process = self.service()
        asked = threading.Event()

        def hang():
            asked.set()
            time.sleep(60)
            return 200
        server = self.serve(process, f"pyroscope={Store(self, hang).address}")
        self.assertTrue(asked.wait(30))
        self.assertEqual(server.get("metrics")[0], 200)
        self.wait_for(lambda: self.counted(server, 'dropped_total{store="pyroscope",reason="late"}') >= 5)
        self.wait_for(lambda: self.counted(server, "up") == 0)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(), 0)
        self.assertLess(time.monotonic() - begin, 4)
        self.assertIsNone(process.poll())

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_certificates(self):
        self.execute("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
                     "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", code=0)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("cert.pem"), self.path("key.pem"))
        process = self.service()
        store = Store(self, context=context)
        server = self.serve(process, f"pyroscope={store.address}")
        self.wait_for(lambda: self.counted(server, "dropped") >= 2)
        self.assertEqual(store.requests, [])
        messages = self.said(server)
        self.assertEqual(messages.count("--push pyroscope="), 1)
        self.assertIn("certificate", messages)
        self.serve(process, f"pyroscope={store.address}", "--push-ca", self.path("cert.pem"))
        store.wait(1)

    def test_a_process_without_samples_is_told_of_once(self):
        process = self.service()  # beside it one that samples nothing
        silent = self.launch(self.path("shop"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=environment(LD_PRELOAD=settings.library, TARN_CONTROL=self.doors))
        silent.stdout.readline()
        store = Store(self)
        server = self.serve(process, f"pyroscope={store.address}", str(silent.pid))
        store.wait(3)
        self.wait_for(lambda: self.counted(server, 'dropped_total{store="pyroscope",reason="no_profile"}') >= 2)
        messages = self.said(server)
        self.assertEqual(messages.count("--push: "), 1, messages)
        self.assertEqual(messages.count(f"process {silent.pid}"), 1, messages)

    def test_what_is_given_wrongly(self):
        for words, phrase in ((("--push", "http://x"), "pyroscope=http://"), (("--push", "parca=ftp://x"), "begins with http"),
                              (("--push", "parca=http://"), "begins with http"), (("--push", "otlp=http://a:b@x"), "--push-headers"),
                              (("--push-ca", "x"), "requires --push"), (("--push", "otlp=http://x", "--push-ca", "gone"), "cannot be read"),
                              (("--push", "otlp=http://x", "--push-headers", "gone"), "cannot be read"),
                              (("--push", "otlp=http://x", "--push-headers", "/tmp"), "cannot be read"),
                              (("--push", "otlp=http:///a:b@x"), "has a host"), (("--push", "otlp=http://x", "--push", "parca=http://y"), "received 2"),
                              (("--push", "otlp=http://:80"), "has a host"), (("--push", "otlp=http://x:65536"), "1 to 65535"),
                              (("--push", "otlp=http://x:0/y"), "1 to 65535"), (("--push", "otlp=http://[::1]:a"), "1 to 65535"),
                              (("--push", "otlp=http://[::1]:99999"), "1 to 65535"), (("--push", "otlp=http://x:"), "1 to 65535"),
                              (("--push", "otlp=http://[::1]:4318", "--push-ca", "gone"), "cannot be read"),
                              (("--push", "otlp=http://x", "--push-headers", "/etc/passwd"), "line 1 of --push-headers /etc/passwd is no header"),
                              (("--push", "otlp=http://x", "--push-label", "a"), "NAME=VALUE"),
                              (("--push", "otlp=http://x", "--push-interval", "0"), "1")):
            code = 125 if phrase == "cannot be read" else 2  # a file is not wrong usage
            self.assert_refused(tarn("serve", "--listen", "127.0.0.1:0", "nothing", *words), code, phrase)
        for line in ("Bearer x", "Authorization:x", "Authorization: ", ": x", "A b: x", "A(): x", "é: x", "A: x\x1b[2J", "A: x\x7f"):
            result = tarn("serve", "--push", "otlp=http://x", "nothing", variables={"TARN_PUSH_HEADERS": f"X-Good_1~: y\r\n\n{line}"})
            self.assert_refused(result, 2, "line 3 of TARN_PUSH_HEADERS is no header")
            self.assertNotIn("Bearer x", result.stderr)  # it may be a secret
        self.assert_refused(tarn("serve", "--push", "otlp=http://x", "--black-box", self.folder), 2, "needs processes")
        self.assert_refused(tarn("serve", "--black-box", "/proc/1"), 125, "/proc/1")
        for words in (("a/b",), ("--listen", "x"), ("1", "--push", "x"), ("1", "--push", "otlp=http://x", "--push-ca", "gone")):
            self.assertNotEqual(tarn("serve", "--black-box", self.path("boxes"), *words).returncode, 0)
            self.assertFalse(os.path.exists(self.path("boxes")), words)  # nothing is done for words that are refused


class push_run(ControlBase):
    """`tarn run --push`: the command that starts the program sends its profiles."""

    def setUp(self):
        super().setUp()
        self.shop = self.compile("shop", SERVICE, "-O1", "-g")
        os.mkdir(self.path("scratch"))

    def start(self, store, *program, interval="1", words=(), **variables):
        return self.launch(settings.tarn, "run", "--push", store, "--push-interval", interval, *words, "--", *(program or (self.shop, "2")),
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=environment(TARN_CONTROL=self.doors, TARN_PROFILE="4096", TMPDIR=self.path("scratch"), no_proxy="*", **variables))

    def end(self, process):
        """Its status and what it has said; nothing of it is left."""
        process.stdin.close()
        status = process.wait(timeout=60)
        self.assertEqual(os.listdir(self.path("scratch")), [])
        return status, process.stderr.read()

    def check(self, body, version):
        sent, attributes, _ = otlp_figures(body)
        for place, mib in (("keep_rows(long)", 8), ("keep_index(long)", 2)):
            self.assertLess(abs(sent["inuse_space"][place] / (mib << 20) - 1), 0.25, place)
        self.assertEqual((attributes["service.name"], attributes["service.version"], attributes["team"]), ("shop", version, "search"))
        return attributes["process.pid"]

    def test_while_it_runs(self):
        store = Store(self)
        process = self.start(f"otlp={store.address}", words=("--push-label", "team=search"), OTEL_SERVICE_NAME="shop",
                             OTEL_RESOURCE_ATTRIBUTES="service.version=1.1")
        self.assertEqual(process.stdout.readline(), "ready\n")
        program = self.check(store.wait(3)[-1][2], "1.1")
        self.assertNotEqual(program, str(process.pid))
        self.assertEqual(self.end(process), (0, ""))
        self.assertEqual(self.check(store.requests[-1][2], "1.1"), program)

    def test_one_that_ends_at_once(self):
        # On a busy machine one lives until it is asked, but not each of ten.
        for _ in range(10):
            status, messages = self.end(self.start(f"otlp={Store(self).address}", "true"))
            self.assertEqual(status, 0)
            if "nothing was sent" in messages:
                break
            if messages:  # it ended while its profile was on its way
                self.assertRegex(messages, "^tarn: --push .*: profiles sent: 0, dropped: 1; the last reason: .* after 0[.][0-9] s, when the push ended\n$")
        self.assertRegex(messages, "^tarn: --push .*: nothing was sent, as no process gave a profile before it ended\n$")

    def test_the_program_does_not_get_the_token(self):
        store = Store(self)
        process = self.start(f"otlp={store.address}", "sh", "-c", f"env > {self.path('env')}; echo | {self.shop} 2 > /dev/null; sleep 2",
                             TARN_PUSH_HEADERS="Authorization: Bearer token-of-the-test")
        status, messages = self.end(process)
        self.assertEqual((status, messages), (0, ""))
        self.assertNotIn("token-of-the-test", Path(self.path("env")).read_text())

    def test_what_it_starts_is_sent_too(self):
        store = Store(self)
        process = self.start(f"otlp={store.address}", "sh", "-c", f"{self.shop} 2; exit 7", words=("--push-label", "team=search"),
                             OTEL_RESOURCE_ATTRIBUTES="service.version=1,service.name=shop")
        self.assertEqual(process.stdout.readline(), "ready\n")
        end = time.monotonic() + 40
        while not any(b"keep_index" in gzip.decompress(body) for _, _, body in store.requests):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        self.assertEqual(self.end(process), (7, ""))

    def test_a_store_that_is_gone(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"otlp=http://127.0.0.1:{free.getsockname()[1]}"
        process = self.start(address)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertIn("profiles are dropped", process.stderr.readline())
        status, messages = self.end(process)
        self.assertEqual(status, 0)
        self.assertRegex(messages, "^tarn: --push .*: profiles sent: 0, dropped: [1-9]\n$")

    def test_a_store_that_hangs(self):
        """The profile that was on its way when the program ended was not sent, and the sums say why."""
        for trickles in (False, True):
            for interval, dropped in (("60", "1"), ("1", "[2-9]")):
                asked = threading.Event()

                def hang(trickles=trickles, asked=asked):
                    asked.set()
                    time.sleep(0 if trickles else 60)
                    return 200
                store = Store(self, hang)
                store.hangs_after = 1 if trickles else None
                process = self.start(f"otlp={store.address}", interval=interval)
                self.assertTrue(asked.wait(30))
                time.sleep(2.5)
                status, messages = self.end(process)
                self.assertEqual(status, 0)
                reason = "it had not ended its answer" if trickles else "it had not answered"
                self.assertRegex(messages, f"^tarn: --push .*: profiles sent: 0, dropped: {dropped}; the last reason: {reason} after [2-9][.][0-9] s, when the push ended\n$")

    def test_an_answer_that_ends_early(self):
        for raw, reason in ((b"", "Empty reply"), (b"HTTP/1.1 200 OK\r\nContent-Le", "its answer ends within its headers"),
                            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nno", ".*"),
                            (b"HTTP/1.1 500 No\r\nContent-Length: 50\r\n\r\nthe disk is full", ".*500.*the disk is full")):
            store = Store(self)
            store.raw = raw
            process = self.start(f"otlp={store.address}")
            store.wait(2)
            status, messages = self.end(process)
            self.assertEqual(status, 0)
            self.assertRegex(messages, f"(?s)^tarn: --push [^ ]*: {reason}.*profiles sent: 0, dropped: [1-9]")

    def test_a_slow_store(self):
        def slow():
            time.sleep(1.6)
            return 200
        store = Store(self, slow)
        process = self.start(f"otlp={store.address}")
        store.wait(3)
        status, messages = self.end(process)
        self.assertEqual(status, 0)
        self.assertRegex(messages, "^tarn: --push .*: profiles sent: [2-9], dropped: [1-9], as those before took longer than the interval\n$")

    def test_messages_that_nobody_reads(self):
        for full in (False, True):
            process = self.launch(settings.tarn, "run", "--push", "otlp=http://127.0.0.1:1", "--push-interval", "1", "--", "sh", "-c", "sleep 3; exit 7",
                                  stderr=self.unread_pipe(full), env=environment(TARN_CONTROL=self.doors))
            self.assertEqual(process.wait(20), 7)

    def test_the_last_reason(self):
        store = Store(self, 503)
        process = self.start(f"otlp={store.address}")
        for status in (503, 401, 500):
            store.answer = status
            store.wait(len(store.requests) + 2)
        status, messages = self.end(process)
        self.assertEqual((status, messages.count("\n")), (0, 3), messages)  # 503, 401, and the sums
        self.assertRegex(messages, "profiles sent: 0, dropped: [0-9]+; the last reason: it answers with status 500 ")

    def test_a_signal_while_the_store_hangs(self):
        asked = threading.Event()

        def hang():
            asked.set()
            time.sleep(60)
            return 200
        process = self.start(f"pyroscope={Store(self, hang).address}")
        self.assertTrue(asked.wait(30))
        begin = time.monotonic()
        process.send_signal(signal.SIGTERM)  # ends the program, which writes no profile
        process.wait(timeout=60)  # before its input ends
        self.assertEqual(self.end(process)[0], -signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 4)

    def test_what_is_given_wrongly(self):
        for words, phrase in ((("--push", "http://x"), "pyroscope=http://"), (("--push-ca", "x"), "requires --push"),
                              (("--push", "otlp=http://x", "--push-ca", "gone"), "cannot be read"), (("--push", "otlp=http://x", "--stats"), "--stats")):
            self.assert_refused(tarn("run", *words, "--", "true"), 125, phrase)
