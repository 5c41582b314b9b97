# SPDX-License-Identifier: MIT
"""A client of `tarn serve --mcp`: the Model Context Protocol by hand, a message per line."""
import json
import select
import subprocess
import time

from harness import environment, settings

SECONDS = 60


class AgentClient:
    def __init__(self, folder, **variables):
        # Standard error is joined to nothing: what a program under the server writes must not come here.
        self.process = subprocess.Popen([settings.tarn, "serve", "--mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, cwd=folder, env=environment(**variables))
        self.rest = b""
        self.last_id = 0
        self.sizes = {}  # by tool: the most bytes of an answer's text

    def send_bytes(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self, seconds=SECONDS):
        """The next message; None where none comes in time, or the server has ended."""
        end = time.monotonic() + seconds
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            part = self.process.stdout.read1(65536)
            if not part:
                return None
            self.rest += part
        line, self.rest = self.rest.split(b"\n", 1)
        message = json.loads(line)  # standard output carries nothing else
        assert message["jsonrpc"] == "2.0", message
        return message

    def ask(self, method, parameters=None, seconds=SECONDS):
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, **({} if parameters is None else {"params": parameters})})
        answer = self.receive(seconds)
        if answer is None and self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}: {self.process.stderr.read()}")
        assert answer is not None and answer["id"] == self.last_id, answer
        return answer

    def begin(self, version="2025-06-18"):
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call(self, tool, patience=SECONDS, **arguments):
        """What the tool answers, as an object, and whether it is an error."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments}, patience)["result"]
        [content] = result["content"]
        self.sizes[tool] = max(self.sizes.get(tool, 0), len(content["text"].encode()))
        try:
            return json.loads(content["text"]), result["isError"]
        except ValueError:
            return content["text"], result["isError"]

    def end(self, seconds=SECONDS):
        """Closes the server's input, and returns how it ended."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(seconds)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        return status
