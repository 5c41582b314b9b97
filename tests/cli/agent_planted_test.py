# SPDX-License-Identifier: MIT
"""How far an agent gets with nothing but `tarn serve --mcp`: small programs with planted problems go through the steps find, advise
and prove, and a table says of each what came out."""
import os
import pathlib

from agent_client import AgentClient
from harness import Base, settings
from planted_programs import CONTROLS, PLANTED, planted_lines, source_of

ROWS = 3  # the planted line must be among the first
MOST_BYTES = 12000
SOURCE = "planted.cpp"
INCLUDES = pathlib.Path(__file__).resolve().parents[2] / "include"
# Of 20. GCC 12 gives 19, 11 and 20: lines are as good as the compiler's debugging information, and proofs measure time. A rule
# exists for 13. What is missing with GCC 12: of a = a + b it names the end of the function, and a tree that is built by recursion has
# few blocks per call path, so that no batch shows.
LEAST = {"found": 18, "advised": 10, "proven": 18}


class agent_planted(Base):
    def setUp(self):
        super().setUp()
        self.client = AgentClient(self.folder)
        self.addCleanup(self.client.end)
        self.client.begin()

    def build(self, program, name, *flags):
        self.write(SOURCE, source_of(program), 0o644)
        libraries = os.path.dirname(settings.library)
        self.execute(settings.compiler, "-std=c++20", "-O1", "-g", "-I", INCLUDES, *flags, "-o", self.path(name), SOURCE, "-pthread",
                     "-Wl,--as-needed", "-L", libraries, "-ltarn-api", f"-Wl,-rpath,{libraries}", code=0)
        return self.path(name)

    def ask(self, tool, **arguments):
        answer, failed = self.client.call(tool, patience=300, **arguments)
        self.assertFalse(failed, (tool, arguments, answer))
        return answer

    def record(self, path):
        return self.ask("profile", command=[path], mode="full", output=path + ".prof")["files"][0]["path"]

    def is_found(self, program, profile):
        view = {"by": program.view} if program.view in ("leaks", "pinned") else {"metric": program.view}
        sites = self.ask("show", profile=profile, rows=ROWS, **view)["sites"][:ROWS]
        return any(site["file"].endswith(SOURCE) and site["line"] in planted_lines(program) for site in sites)

    def advice(self, profile):
        """(kind, place) of each piece that changes something."""
        return [(one["kind"], one["place"]) for one in self.ask("advise", profile=profile)["advice"] if one["kind"] != "leave it"]

    def is_advised(self, program, advice):
        places = tuple(f"{SOURCE}:{line} " for line in planted_lines(program))
        return any(kind in program.kinds and (not place or any(each in place for each in places)) for kind, place in advice)

    def proof(self, program, profile, mended):
        """Whether the claim is confirmed, and the tool's own words."""
        tool, metric = program.claim.split()
        if tool == "diff":
            change = self.ask("diff", before=[profile], after=[self.record(mended)], rows=ROWS)["totals"][metric]
            return change["significant"] and change["change"] < 0, f"{metric} {change['before']:.4g} to {change['after']:.4g}"
        answer, failed = self.client.call("prove", patience=300, profile=profile, build=mended, seconds=10)
        if failed:
            return False, answer["error"]["problem"]
        figure = answer["ways"][0]["figures"][{"cpu": "cpu_time", "rss": "peak_rss"}[metric]]
        return figure["outcome"] == "less", f"{metric} {figure['ratio']:.3g} ({figure['low']:.3g} to {figure['high']:.3g})"

    def test_steps(self):
        counts = dict.fromkeys(LEAST, 0)
        say = lambda *words: print("{:34} | {:7} | {:24} | {}".format(*words), flush=True)
        say("\nprogram", "found", "advised", "proven")
        for program in PLANTED:
            profile = self.record(self.build(program, "before"))
            mended = self.build(program, "after", "-DMENDED")
            found, advice = self.is_found(program, profile), self.advice(profile)
            advised = self.is_advised(program, advice)
            proven, words = self.proof(program, profile, mended)
            for name, reached in (("found", found), ("advised", advised), ("proven", proven)):
                counts[name] += reached
            kinds = "yes" if advised else ("no: " if program.kinds else "no rule: ") + ", ".join(kind for kind, _ in advice)
            say(program.name, "yes" if found else "no", kinds, f"{'yes' if proven else 'no'}: {words}")
        for program in CONTROLS:
            profile = self.record(self.build(program, "before"))
            leaks = self.ask("show", profile=profile, by="leaks")
            advice = [kind for kind, _ in self.advice(profile)]
            proven, words = self.proof(program, profile, self.build(program, "after", "-DMENDED"))
            say("control: " + program.name, "", ", ".join(advice) or "nothing", f"{'yes' if proven else 'no'}: {words}")
            self.assertEqual(leaks["lost"]["blocks"], 0, leaks)
            self.assertFalse(proven, words)
        print(f"of {len(PLANTED)}: {counts}; largest answers in bytes: {self.client.sizes}")
        self.assertLessEqual(max(self.client.sizes.values()), MOST_BYTES)
        for name, least in LEAST.items():
            self.assertGreaterEqual(counts[name], least, name)
