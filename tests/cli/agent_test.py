# SPDX-License-Identifier: MIT
"""`tarn serve --mcp`: the Model Context Protocol, what is sent against it, and the verbs behind it."""
import json
import os
import signal
import subprocess
import time

from agent_client import AgentClient
from harness import Base, tarn

MOST_BYTES = 12000  # of an answer: 4,000 tokens at three bytes

# Allocates at two places, one of which has a remedy; writes much to both outputs.
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <vector>
int main() {
  long sum = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<int> values;
#ifdef RESERVES
    values.reserve(20000);
#endif
    for (int each = 0; each < 20000; ++each) values.push_back(each);
    sum += values.back() + static_cast<long>(values.size());
    std::puts("{\"jsonrpc\": \"2.0\", \"id\": 1, \"result\": \"of the program\"}");
    std::fputs("{\"files\": []}\n", stderr);
  }
  return sum == 0;
}
"""
STUBBORN = r"""
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
int main(int, char** words) {
  std::signal(SIGTERM, SIG_IGN);
  void* volatile block = std::malloc(100);
  FILE* file = std::fopen(words[1], "w");
  std::fprintf(file, "%d\n", getpid());
  std::fclose(file);
  for (;;) pause();
}
"""


def stat_of(process):
    """State, parent and so on; a state of its own where it is gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()
    except OSError:
        return ["X"]


def is_alive(process):
    return stat_of(process)[0] not in "ZX"


class agent(Base):
    def setUp(self):
        super().setUp()
        self.client = AgentClient(self.folder)
        self.addCleanup(self.client.end)

    def program(self, *flags):
        return self.compile("program" + "".join(flags), PROGRAM, "-O1", "-g", *flags)

    # ---- the protocol ----

    def test_begin(self):
        for asked, expected in (("2024-11-05", "2024-11-05"), ("2025-03-26", "2024-11-05"), ("2025-06-18", "2025-06-18"),
                                ("2025-11-25", "2025-11-25"), ("2999-01-01", "2025-11-25"), ("", "2025-11-25")):
            said = self.client.begin(asked)
            self.assertEqual(said["protocolVersion"], expected, asked)
        self.assertEqual(said["serverInfo"]["name"], "tarn")
        self.assertIn("tools", said["capabilities"])
        self.assertEqual(self.client.ask("ping")["result"], {})
        self.assertEqual(self.client.end(), 0)

    def test_list(self):
        tools = self.client.ask("tools/list")["result"]["tools"]
        self.assertEqual([each["name"] for each in tools], ["profile", "show", "advise", "prove", "diff"])
        for each in tools:
            self.assertEqual(each["inputSchema"]["type"], "object")
            self.assertLessEqual(set(each["inputSchema"]["required"]), set(each["inputSchema"]["properties"]))
        self.assertLess(len(json.dumps(tools)), MOST_BYTES)

    def test_ids(self):
        for each in (0, -1, 2**63, "", "text", "\u202e\u0000", "x" * 10000):
            self.client.send({"jsonrpc": "2.0", "id": each, "method": "ping"})
            self.assertEqual(self.client.receive(), {"jsonrpc": "2.0", "id": each, "result": {}})
        for each in (None, 1.5, True, [], {}, [[1]]):
            self.client.send({"jsonrpc": "2.0", "id": each, "method": "ping"})
            answer = self.client.receive()
            self.assertEqual((answer["id"], answer["error"]["code"]), (None, -32600), each)

    def test_hostile_lines(self):
        rows = [(b"{", -32700), (b"\xff\xfe", -32700), (b"{}x", -32700), (b'{"a":"\xff"}', -32700), (b"nothing", -32700), (b"\0", -32700),
                (b"1", -32600), (b'"text"', -32600), (b"null", -32600), (b"[]", -32600), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
                (b"{}", -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
                (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
                (b'{"jsonrpc":"2.0","id":1,"method":"rm"}', -32601), (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
                (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
                (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":[]}}', -32602),
                (b"[" * 100000, -32600), (b'{"a":' * 100000, -32600), (b'{"id":' + b"[" * 1000 + b"]" * 1000 + b"}", -32600),
                (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700), (b"x" * (2 << 20), -32600), (b'"' + b"a" * (1 << 20), -32600)]
        for line, code in rows:
            self.client.send_bytes(line + b"\n")
            answer = self.client.receive()
            self.assertEqual(answer["error"]["code"], code, line[:60])
            self.assertNotIn("result", answer)
        # None of these has an answer: empty lines, notifications, answers to requests that the server has not made.
        for line in (b"", b" \t\r", b'{"jsonrpc":"2.0","method":"notifications/cancelled"}', b'{"jsonrpc":"2.0","method":"tools/call"}',
                     b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}', b'{"jsonrpc":"2.0","id":1,"result":{}}',
                     b'{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":""}}'):
            self.client.send_bytes(line + b"\r\n")
        self.assertEqual(self.client.ask("ping")["result"], {})

    def test_parts(self):
        """A message may come in parts, and several at once."""
        for part in (b'{"jsonrpc":"2.0",', b'"id":1,"method":', b'"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n{"json'):
            self.client.send_bytes(part)
            time.sleep(0.05)
        self.assertEqual([self.client.receive()["id"] for _ in range(2)], [1, 2])
        self.client.send_bytes(b'rpc":"2.0","id":3,"method":"ping"}\n')
        self.assertEqual(self.client.receive()["id"], 3)

    def test_wrong_arguments(self):
        rows = [("profile", {}, "command is missing"), ("profile", {"command": "true"}, "array"), ("profile", {"command": []}, "array"),
                ("profile", {"command": [1]}, "array"), ("profile", {"command": [""]}, "array"), ("profile", {"command": ["a\0b"]}, "zero"),
                ("profile", {"command": ["true"], "mode": "all"}, "one of sample"), ("profile", {"command": ["true"], "seconds": "1"}, "number"),
                ("profile", {"command": ["true"], "--output": "x"}, "no argument"), ("show", {"profile": "/dev/null", "rows": -1}, "whole"),
                ("show", {"profile": "/dev/null", "rows": 1.5}, "whole"), ("show", {"profile": ["a"]}, "path"), ("diff", {"before": ["a"]}, "after"),
                ("profile", {"command": ["true"], "directory": "/nowhere"}, "not a folder"), ("profile", {"command": ["true"], "stdin": "/dev"}, "stdin"),
                ("profile", {"command": ["/nowhere"]}, "/nowhere"), ("show", {"profile": "--help"}, "--help"), ("show", {"profile": ""}, "not empty"),
                ("profile", {"command": ["true"], "seconds": 0}, "above 0"),
                ("prove", {"profile": "/dev/null"}, "/dev/null"), ("profile", [], "object")]
        for tool, arguments, phrase in rows:
            result = self.client.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
            self.assertTrue(result["isError"], (tool, arguments, result))
            self.assertIn(phrase, result["content"][0]["text"], (tool, arguments))

    # ---- the verbs ----

    def test_workflow(self):
        program, edited = self.program(), self.program("-DRESERVES")
        self.client.begin()
        profiled, failed = self.client.call("profile", command=[program], mode="full")
        self.assertFalse(failed, profiled)
        [file] = profiled["files"]
        self.assertTrue(os.path.isabs(file["path"]) and os.path.exists(file["path"]), file)
        self.assertEqual(profiled["exit_status"], 0)
        shown, failed = self.client.call("show", profile=file["path"], metric="bytes", rows=1)
        self.assertFalse(failed, shown)
        [site] = shown["sites"]
        self.assertEqual(site["line"], PROGRAM[:PROGRAM.index("values.push_back")].count("\n") + 1, site)
        advised, failed = self.client.call("advise", profile=file["path"])
        self.assertFalse(failed, advised)
        self.assertIn("reserve", [each["kind"] for each in advised["advice"]])
        rest, _ = self.client.call("advise", profile=file["path"], skip=1)
        self.assertEqual(rest["advice"], advised["advice"][1:])
        proven, failed = self.client.call("prove", profile=file["path"], build=edited, seconds=3)
        self.assertFalse(failed, proven)
        self.assertEqual([way["kind"] for way in proven["ways"]], ["build"])
        profiled, _ = self.client.call("profile", command=[edited], mode="full", output="after.prof", directory=self.folder)
        after = profiled["files"][0]["path"]
        self.assertEqual(after, self.path("after.prof"))
        changes, failed = self.client.call("diff", before=[file["path"]], after=[after], metric="bytes")
        self.assertFalse(failed, changes)
        self.assertLess(changes["totals"]["bytes"]["share"], -0.4)
        # A verb's own figures, no others.
        own = json.loads(tarn("diff", "--json", "-m", "bytes", file["path"], after).stdout)
        self.assertEqual(own["totals"]["allocations"]["after"], changes["totals"]["allocations"]["after"])

    def test_small_answers(self):
        """A program with more places than an answer has room for."""
        functions = "".join(f"__attribute__((noinline)) void some_function_with_a_long_name_{at}(int bytes) {{ free(malloc(bytes)); }}\n" for at in range(120))
        calls = "".join(f"some_function_with_a_long_name_{at}({at} + 1);\n" for at in range(120))
        program = self.compile("many", f"#include <stdlib.h>\n{functions}int main() {{ {calls} }}", "-O1", "-g", "-fno-builtin", language="c")
        profiled, _ = self.client.call("profile", command=[program], mode="full")
        path = profiled["files"][0]["path"]
        seen, skip = [], 0
        while True:
            shown, failed = self.client.call("show", profile=path, metric="allocations", rows=0, skip=skip)
            self.assertFalse(failed, shown)
            seen += [site["function"] for site in shown["sites"]]
            if "left_out" not in shown:
                break
            [cut] = shown["left_out"]["what"]
            self.assertEqual((cut["where"], cut["shown"]), ("/sites", len(shown["sites"])))
            self.assertIn("skip", shown["left_out"]["how"])
            skip += len(shown["sites"])
        self.assertGreater(skip, 0)
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(len([name for name in seen if name.startswith("some_function")]), 120)
        for view in ("tree", "rss", "pinned"):
            self.client.call("show", profile=path, by=view, rows=0)
        self.assertLessEqual(max(self.client.sizes.values()), MOST_BYTES, self.client.sizes)

    def test_failing_program(self):
        program = self.write("fails", "#!/bin/sh\necho the reason >&2\nexit 3\n")
        said, failed = self.client.call("profile", command=[program])
        self.assertFalse(failed, said)
        self.assertEqual(said["exit_status"], 3)
        self.assertEqual(said["stderr"], "the reason")

    def test_killed_program(self):
        """By a fault, by abort() and by another process: the answer is as that of one that fails."""
        for name, number in (("SEGV", signal.SIGSEGV), ("ABRT", signal.SIGABRT), ("KILL", signal.SIGKILL)):
            said, failed = self.client.call("profile", command=["sh", "-c", f"env | grep -c AGENT >&2; kill -{name} $$"])
            self.assertFalse(failed, said)
            self.assertEqual((said["signal"], said["exit_status"], said["stderr"]), (number, None, "0"))
            self.assertTrue(os.path.exists(said["files"][0]["path"]))
        self.assertFalse(self.client.call("show", profile=said["files"][0]["path"])[1])

    def test_hostile_program(self):
        """What it writes behind tarn's own summary, from a process that outlives it, is not taken for that."""
        deep = '{"files":' * 100000
        program = self.write("writes", f"#!/bin/sh\n(sleep 0.5; cat deep >&2; echo '{{\"files\":[1,{{\"path\":1}}]}}' >&2) &\ncat deep >&2\n")
        with open(self.path("deep"), "w", encoding="utf-8") as file:
            file.write(deep + "\n[1]\n\xff\0\n")
        said, _ = self.client.call("profile", command=[program])
        self.assertIn("files", said)
        self.assertEqual(self.client.ask("ping")["result"], {})

    def test_hostile_end(self):
        """A program that kills the verb cannot answer in its place."""
        program = self.write("kills", "#!/bin/sh\necho '{\"files\":[{\"path\":\"/etc/passwd\"}],\"signal\":9}' >&2\nkill -9 $PPID\nsleep 2\n")
        said, failed = self.client.call("profile", command=[program])
        self.assertTrue(failed, said)
        self.assertNotIn("files", said)

    def test_a_verb_that_its_program_kills(self):
        said, failed = self.client.call("profile", command=["sh", "-c", "echo the reason >&2; kill -9 $PPID; sleep 2"])
        self.assertTrue(failed, said)
        self.assertIn("without an answer", said["error"]["problem"])
        self.assertIn("kill", said["error"]["advice"])
        self.assertEqual((said["ended"], said["stderr"]), ("killed by signal 9 (Killed)", "the reason"))

    def test_floods(self):
        """What a program, or one that it leaves behind, writes to standard error does not push the answer out."""
        for script, seconds in (("yes A >&2 & sleep 1; exit 3", 30), ("yes A >&2", 2)):
            said, failed = self.client.call("profile", command=["sh", "-c", script], seconds=seconds)
            self.assertFalse(failed, said)
            self.assertTrue(os.path.exists(said["files"][0]["path"]))
            self.assertTrue(said["stderr"].endswith("A\\nA"), said["stderr"][-50:])

    def test_input(self):
        with open(self.path("data"), "w", encoding="utf-8") as file:
            file.write("some data\n")
        said, _ = self.client.call("profile", command=["sh", "-c", "read line; test \"$line\" = 'some data'"], stdin="data")
        self.assertEqual(said["exit_status"], 0, said)

    # ---- time ----

    def stubborn(self):
        """Starts a program that ignores SIGTERM under the server; returns the request's id and the program's."""
        program = self.compile("stubborn", STUBBORN, "-O1")
        self.client.last_id += 1
        self.client.send({"jsonrpc": "2.0", "id": self.client.last_id, "method": "tools/call",
                          "params": {"name": "profile", "arguments": {"command": [program, "pid"]}}})
        end = time.monotonic() + 30
        while not (os.path.exists(self.path("pid")) and self.read("pid").endswith("\n")):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        return self.client.last_id, int(self.read("pid"))

    def assert_gone(self, process):
        end = time.monotonic() + 40
        while is_alive(process) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertFalse(is_alive(process))

    def test_limit(self):
        begin = time.monotonic()
        said, failed = self.client.call("profile", command=["sleep", "50"], seconds=6)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertFalse(failed, said)
        self.assertEqual(said["signal"], signal.SIGTERM)
        self.assertIn("limit", said["cut_short"])

    def test_limit_of_a_program_that_ignores_it(self):
        program = self.compile("stubborn", STUBBORN, "-O1")
        begin = time.monotonic()
        said, failed = self.client.call("profile", command=[program, "pid"], seconds=2)
        self.assertLess(time.monotonic() - begin, 25)
        self.assertFalse(failed, said)
        self.assertEqual(said["signal"], signal.SIGKILL)
        self.assertIn("limit of 2 s; the program went on after SIGTERM", said["cut_short"])
        self.assertTrue(os.path.exists(said["files"][0]["path"]))

    def test_limit_of_a_program_that_stops(self):
        """Itself, or with its whole process group, or the verb too; and again when it is continued."""
        again = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: os.kill(os.getpid(), signal.SIGSTOP)"
        for command, number in ((["sh", "-c", "kill -STOP $$"], signal.SIGTERM), (["sh", "-c", "kill -TTIN 0"], signal.SIGTERM),
                                (["sh", "-c", "kill -STOP $PPID; sleep 100"], signal.SIGTERM), (["python3", "-c", again], signal.SIGKILL)):
            begin = time.monotonic()
            said, failed = self.client.call("profile", command=command, seconds=2)
            self.assertLess(time.monotonic() - begin, 25, command)
            self.assertFalse(failed, (command, said))
            self.assertEqual(said["signal"], number, command)
            self.assertTrue(os.path.exists(said["files"][0]["path"]))

    def test_cancel(self):
        number, process = self.stubborn()
        self.assertEqual(self.client.ask("ping")["result"], {})  # it answers while a tool runs
        waiting = self.client.last_id = self.client.last_id + 1
        self.client.send({"jsonrpc": "2.0", "id": waiting, "method": "tools/call", "params": {"name": "show", "arguments": {"profile": "/"}}})
        for each in (12345, waiting, number):
            self.client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": each}})
        self.assert_gone(process)
        self.assertEqual(self.client.ask("ping")["result"], {})  # and no answer came of the two

    def test_too_many(self):
        self.stubborn()
        for at in range(17):
            self.client.send({"jsonrpc": "2.0", "id": f"more-{at}", "method": "tools/call", "params": {"name": "show", "arguments": {"profile": "/"}}})
        answer = self.client.receive()
        self.assertEqual((answer["id"], answer["error"]["code"]), ("more-16", -32000))

    def test_client_leaves(self):
        _, process = self.stubborn()
        begin = time.monotonic()
        self.assertEqual(self.client.end(), 0)
        self.assertLess(time.monotonic() - begin, 10)
        self.assert_gone(process)

    def test_signals(self):
        _, process = self.stubborn()
        self.client.process.terminate()
        self.assertEqual(self.client.process.wait(20), 0)
        self.assert_gone(process)

    def test_killed_server(self):
        """Nobody is left to end the verb; the kernel tells it."""
        self.client.call("profile", command=["true"])
        self.client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "profile", "arguments": {
            "command": ["sh", "-c", "echo $$ > pid; exec sleep 100"]}}})
        end = time.monotonic() + 30
        while not os.path.exists(self.path("pid")) or not self.read("pid"):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        program = int(self.read("pid"))
        verb = int(stat_of(program)[1])
        self.client.process.kill()
        self.client.process.wait()
        self.assert_gone(program)
        self.assert_gone(verb)  # it has written the profile

    def test_killed_server_and_a_program_that_ignores_it(self):
        _, process = self.stubborn()
        self.client.process.kill()
        self.client.process.wait()
        self.assert_gone(process)

    def test_last_line_without_its_end(self):
        self.client.send_bytes(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
        self.client.process.stdin.close()
        self.assertEqual(self.client.receive(), {"jsonrpc": "2.0", "id": 7, "result": {}})
        self.assertEqual(self.client.end(), 0)

    def test_a_call_when_the_input_ends(self):
        self.client.send_bytes(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"show","arguments":{"profile":"x"}}}')
        self.client.process.stdin.close()
        answer = self.client.receive()
        self.assertEqual((answer["id"], answer["error"]["code"]), (7, -32000))
        self.assertEqual(self.client.end(), 0)

    def test_left_behind(self):
        """What a program leaves running is ended with the call, and does not hold its answer up."""
        self.client.call("profile", command=["sh", "-c", "sleep 100 & echo $! > pid"])
        self.assert_gone(int(self.read("pid")))

    # ---- the verb's own options ----

    def test_options(self):
        for more in (["--json"], ["1"], ["--listen", "127.0.0.1:0"], ["--black-box", "."], ["--host-name", "a"]):
            result = tarn("serve", "--mcp", *more, code=2)
            self.assertIn("--mcp", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_closed_output(self):
        reading, writing = os.pipe()
        os.close(reading)
        process = self.launch(self.client.process.args[0], "serve", "--mcp", stdin=subprocess.PIPE, stdout=writing)
        os.close(writing)
        process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        self.assertIn(process.wait(20), (141, -signal.SIGPIPE))
