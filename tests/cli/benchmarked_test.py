# SPDX-License-Identifier: MIT
"""The benchmarks' real programs use the malloc that they are to measure: python has one of its own, unless a variable says otherwise."""
import json
import os
import sys
from pathlib import Path

from harness import Base, settings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
from suites import real_programs  # noqa: E402

LEAST_CALLS = 10_000
DIVIDES_ITSELF = {"gs"}  # it takes 4,000 pieces from malloc


class benchmarked(Base):
    def test_each_program_calls_malloc(self):
        folder = Path(self.path("inputs"))
        folder.mkdir()
        for program in real_programs.PROGRAMS:
            with self.subTest(program.name):
                if program.name in DIVIDES_ITSELF or not program.find():  # or its package is not installed
                    continue
                command, environment, make = program.prepared(folder)
                make()
                measured = json.loads(self.execute(settings.tarn, "compare", "--tail", "--json", "--only", "system", "-r", "1", "-w", "0",
                                                   "--", *command, variables=environment, code=0).stdout)
                rows = measured["contenders"][0]["tails"]["rows"]
                self.assertGreater(sum(row["calls"] for row in rows if row["function"] == "malloc"), LEAST_CALLS)
