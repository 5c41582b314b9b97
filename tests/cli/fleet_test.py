# SPDX-License-Identifier: MIT
"""End-to-end: `tarn serve --push` to the stores that people run, as far as they are installed (`pyroscope`, `parca`), and to the
receiver of OpenTelemetry's Collector (built by go from otlp_receiver/): three processes of two versions, of which the newer one
holds five times as much at one place."""
import base64
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from control_test import ControlBase, Server
from harness import environment, settings
from push_test import SERVICE, pprof_figures

PLACE = "keep_index(long)"
TYPE = "memory:inuse_space:bytes:space:bytes"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def asked(url, body=None):
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


class Pyroscope:
    name = "pyroscope"

    def __init__(self, test):
        test.need(self.name)
        [port] = free_ports(1)
        self.address = f"http://127.0.0.1:{port}"
        # Version 2. Its parts find each other at the usual ports.
        parts = ("distributor.ring.instance-addr", "memberlist.advertise-addr", "overrides-exporter.ring.instance-addr",
                 "query-frontend.instance-addr", "query-scheduler.ring.instance-addr", "segment-writer.lifecycler.addr")
        test.log_of(self.name, "pyroscope", "-target=all", "-architecture.storage=v2", "-server.http-listen-address=127.0.0.1", f"-server.http-listen-port={port}",
                    "-server.grpc-listen-address=127.0.0.1", "-memberlist.bind-addr=127.0.0.1", "-usage-stats.enabled=false",
                    "-self-profiling.disable-push=true", *(f"-{part}=127.0.0.1" for part in parts))
        test.wait_until_ready(f"{self.address}/ready")

    def places(self, version):
        """Live bytes by function, of all processes of this version, by the store's own query."""
        now = int(time.time() * 1000)
        graph = asked(f"{self.address}/querier.v1.QuerierService/SelectMergeStacktraces",
                      {"profileTypeID": TYPE, "labelSelector": f'{{service_version="{version}"}}', "start": now - 3600000, "end": now + 60000,
                       "maxNodes": 10000}).get("flamegraph")
        if not graph or "total" not in graph:
            return {"": 0}
        places = {"": int(graph["total"])}
        for level in graph["levels"]:
            values = [int(each) for each in level["values"]]
            for at in range(0, len(values), 4):  # offset, total, self, name
                name = graph["names"][values[at + 3]]
                places[name] = places.get(name, 0) + values[at + 1]
        return places

    def profile(self, name, value):
        """All processes with this label in one profile of pprof: as profilecli asks for it, in protobuf."""
        now = int(time.time() * 1000)

        def number(value):
            return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])
        texts = (TYPE.encode(), f'{{{name}="{value}"}}'.encode())
        body = b"".join(bytes([field << 3 | 2]) + number(len(text)) + text for field, text in enumerate(texts, 1))
        body += b"".join(bytes([field << 3]) + number(moment) for field, moment in ((3, now - 3600000), (4, now + 60000)))
        request = urllib.request.Request(f"{self.address}/querier.v1.QuerierService/SelectMergeProfile", data=body,
                                         headers={"Content-Type": "application/proto"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()


class Parca:
    name = "parca"

    def __init__(self, test):
        test.need(self.name)
        [port] = free_ports(1)
        self.address = f"http://127.0.0.1:{port}"
        config = test.write("parca.yaml", "object_storage:\n  bucket:\n    type: FILESYSTEM\n    config:\n"
                            f"      directory: {test.folder}/parca\n")
        test.log_of(self.name, "parca", f"--config-path={config}", f"--http-address=127.0.0.1:{port}")
        test.wait_until_ready(f"{self.address}/api/profiles/types")

    def profile(self, name, value):
        """All processes with this label in one profile of pprof, or None."""
        moment = "%Y-%m-%dT%H:%M:%SZ"
        query = urllib.parse.urlencode({"mode": "MODE_MERGE", "merge.query": f'{TYPE}{{{name}="{value}"}}',
                                        "merge.start": time.strftime(moment, time.gmtime(time.time() - 3600)),
                                        "merge.end": time.strftime(moment, time.gmtime(time.time() + 60)),
                                        "reportType": "REPORT_TYPE_PPROF"})
        try:
            packed = asked(f"{self.address}/api/profiles/query?{query}").get("pprof")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise AssertionError(error.read()) from error
        return base64.b64decode(packed) if packed else None

    def places(self, version):
        packed = self.profile("service_version", version)
        return next(iter(pprof_figures(packed).values())) if packed else {"": 0}


class Collector:
    name = "otlp"

    def __init__(self, test):
        test.need("go")
        folder = shutil.copytree(Path(__file__).parent / "otlp_receiver", test.path("otlp_receiver"))
        built = test.execute("go", "build", "-o", "receiver", ".", cwd=folder, timeout=1500,
                             variables={"GOFLAGS": "-mod=mod -p=1", "CGO_ENABLED": "0"})
        if built.returncode != 0:
            test.skipTest(f"go cannot build otlp_receiver: {built.stderr[-300:]}")
        [port] = free_ports(1)
        self.address = f"http://127.0.0.1:{port}"
        self.log = test.path(self.name + ".log")
        test.log_of(self.name, os.path.join(folder, "receiver"), f"127.0.0.1:{port}")
        test.wait_until_ready(f"{self.address}/")

    def places(self, version):
        places = {"": 0}
        with open(self.log, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line["Attributes"]["service.version"] == version and line["Type"] == "inuse_space":
                    for name, value in line["Sums"].items():
                        places[name] = places.get(name, 0) + value
        return places


class fleet(ControlBase):
    def need(self, program):
        if not shutil.which(program):
            self.skipTest(f"no program {program}")

    def log_of(self, name, *words):
        log = open(self.path(name + ".log"), "w", encoding="utf-8")
        self.addCleanup(log.close)
        self.launch(*words, stdout=log, stderr=log)

    def wait_until_ready(self, url):
        for _ in range(1000):
            try:
                with urllib.request.urlopen(url, timeout=10):
                    return
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    return
                time.sleep(0.2)
            except OSError:
                time.sleep(0.2)
        self.fail(f"{url} does not become ready")

    def own_figures(self, pid):
        self.execute(settings.tarn, "control", "--samples", "heap", "-o", f"own-{pid}.pb.gz", str(pid), code=0)
        with open(self.path(f"own-{pid}.pb.gz"), "rb") as file:
            return pprof_figures(file.read())["inuse_space"]

    def check(self, kind):
        os.environ["no_proxy"] = "*"
        store = kind(self)
        program = self.compile("shop", SERVICE, "-O1", "-g")
        own = {"1.0": [], "1.1": []}
        processes = self.processes = []
        for version, mib in (("1.0", "2"), ("1.0", "2"), ("1.1", "10")):
            process = self.launch(program, mib, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=environment(LD_PRELOAD=settings.library, TARN_CONTROL=self.doors, TARN_PROFILE="4096",
                                                  OTEL_SERVICE_NAME="shop", OTEL_RESOURCE_ATTRIBUTES=f"service.version={version}"))
            self.assertEqual(process.stdout.readline(), "ready\n")
            processes.append(str(process.pid))
            own[version].append(self.own_figures(process.pid))
        # One profile of each process, which a query then has once.
        server = Server(self, *processes, "--push", f"{kind.name}={store.address}", "--push-interval", "3600")
        for _ in range(300):
            if "tarn_push_sent_total" in (text := server.get("metrics")[2]) and re.search(r"^tarn_push_sent_total\S* 3$", text, re.M):
                break
            time.sleep(0.2)
        else:
            self.fail(text)
        for version, figures in own.items():
            expected = {name: sum(each[name] for each in figures) for name in ("", PLACE)}
            for _ in range(300):
                places = store.places(version)
                if places[""]:
                    break
                time.sleep(0.2)
            print(kind.name, version, "tarn:", expected, "the store:", {name: places.get(name) for name in expected}, flush=True)
            for name, value in expected.items():
                self.assertLess(abs(places.get(name, 0) / value - 1), 0.03, (version, name, places))
        # Of one process each: which place holds more in the newer version.
        before, after = ({name: value / len(own[version]) for name, value in store.places(version).items()} for version in own)
        grown = max((name for name in after if name.endswith("(long)")), key=lambda name: after[name] - before.get(name, 0))
        self.assertEqual(grown, PLACE)
        self.assertLess(abs(after[PLACE] / before[PLACE] / 5 - 1), 0.1)
        return store

    def check_difference(self, store):
        """`tarn diff` of what the store gives back, a profile for each process."""
        files = []
        for pid in self.processes:
            files.append(f"{pid}.pb.gz")
            with open(self.path(files[-1]), "wb") as file:
                file.write(store.profile("process_pid", pid))
        found = self.execute(settings.tarn, "diff", "--fail-if", "site.live_bytes>+50%", *files[:2], "--", files[2], code=1).stdout
        print(found)
        self.assertRegex(found, rf"beyond .* live_bytes of {re.escape(PLACE)} ")
        self.assertEqual(found.count("beyond"), 1)
        self.assertNotRegex(found, "(?m)^(bytes|live|cost) ")  # of these the store gives nothing

    def test_pyroscope(self):
        self.check_difference(self.check(Pyroscope))

    def test_parca(self):
        self.check_difference(self.check(Parca))

    def test_collector(self):
        self.check(Collector)
