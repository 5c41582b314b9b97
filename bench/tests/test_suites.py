# SPDX-License-Identifier: MIT
"""What the suites plan: who takes part in which cell, by which command, what is missing, and how figures are read."""

import json
import tempfile
import types
import unittest
import unittest.mock
from pathlib import Path

import run
import support  # noqa: F401  (sets the path)
from peers import contender as peers
from peers import mallocs
from peers.contender import Contender, ContenderError
from peers.recyclers import Peers
from runner.launch import RESULT_FILE, RunFailed
from runner.session import Cell, select
from runner.selection import Patterns
from suites import buffers, inputs, malloc, pools, profiler, real_programs, recyclers


class SuiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = Path(folder.name)
        (self.build / "bench").mkdir()
        for suite in (malloc.peers, pools, recyclers):  # dpkg takes its time
            patch = unittest.mock.patch.object(suite, "version_of", lambda library: "")
            patch.start()
            self.addCleanup(patch.stop)

    def options(self, suite: str, *words: str):
        return run.parse_arguments(run.SUITES[suite], ["--build-dir", str(self.build), *words])

    def program(self, name: str, *lines: str) -> Path:
        path = self.build / "bench" / name
        path.write_text("#!/bin/sh\n" + "".join(f"echo {line}\n" for line in lines))
        path.chmod(0o755)
        return path

    def launcher(self, output: str):
        """Stands for the real one after a run."""
        files = {name: self.build / name for name in ("output", "errors", "result")}
        files["output"].write_text(output)
        return types.SimpleNamespace(**files, last_error=lambda: "")


class MallocsTest(SuiteTest):
    def test_peers_from_crates_take_part_under_new_and_delete_in_each_suite(self):
        for name in (*(f"pools_{scene}" for scene in pools.SCENES), *(row[1] for row in malloc.WORKLOADS)):
            self.program(name, "new-delete")
        for name in (*(f"recyclers_{scene}" for scene in recyclers.SCENES), "buffers_loops", "buffers_loops_tarn"):
            self.program(name)
        newer = Contender("newer1.2", Path("/newer.so"), (("A", "1"),))
        names = {
            malloc: {"newer1.2"},
            pools: {"new/delete, newer1.2"},
            recyclers: {"C++, fresh, newer1.2"},
            buffers: {"newer1.2"},
        }
        for suite, expected in names.items():
            for words in ((), ("--peers-from-crates",)):
                with unittest.mock.patch.object(mallocs.crates, "build_all", lambda root, say, notices: [newer]):
                    cells = suite.plan(self.options(suite.SUITE.name, *words), self.build).cells
                tasks = [task for cell in cells for task in cell.tasks if task.malloc == newer]
                self.assertEqual({task.contender for task in tasks}, expected if words else set())

    def test_what_is_left_out_is_not_missed_either(self):
        absent = unittest.mock.patch.object(peers, "find_library", lambda file_name: None)
        for without, count in (((), 4), (("tbb",), 3)):
            with absent:
                found, missing = peers.installed_peers(without)
            self.assertEqual((len(found), len(missing)), (1, count))


class MallocTest(SuiteTest):
    def setUp(self):
        super().setUp()
        for name in {row[1] for row in malloc.WORKLOADS}:
            self.program(name)

    def cells(self, *words: str) -> list[Cell]:
        options = self.options("malloc", *words)
        found = malloc.plan(options, self.build)
        return select(found.cells, Patterns(options.scenes), Patterns(options.contenders), malloc.SUITE.always)

    def test_patterns_and_groups_select(self):
        keys = [cell.key for cell in self.cells("--rows", "larson*,ring-2")]
        self.assertEqual(keys, ["larson-4", "ring-2"])
        self.assertEqual(len(self.cells("--rows", "workload")), len(malloc.WORKLOADS))
        self.assertEqual({cell.scene for cell in self.cells("--rows", "real")}, {"real"})
        scaled = [cell.key for cell in self.cells("--rows", "rbtree", "--threads", "1,3")]
        self.assertEqual(scaled[:3], ["rbtree", "larson@1", "larson@3"])

    def test_the_first_contender_runs_under_two_names(self):
        tasks = self.cells("--rows", "rbtree", "--contenders", "glibc")[0].tasks
        self.assertEqual([(each.contender, each.kind) for each in tasks], [("glibc", "peer"), ("glibc again", "twin")])
        scaling = self.cells("--threads", "2", "--contenders", "glibc")[-1]
        self.assertEqual([each.contender for each in scaling.tasks], ["glibc"])

    def test_what_with_names_takes_part(self):
        tasks = self.cells("--rows", "rbtree", "--contenders", "glibc", "--with", "lean=,A=1")[0].tasks
        self.assertEqual([each.contender for each in tasks], ["glibc", "lean", "glibc again"])
        self.assertEqual(dict(tasks[1].malloc.environment), {"A": "1"})
        with self.assertRaisesRegex(ContenderError, "share a name"):
            self.cells("--with", "glibc=")

    def test_extra_contenders(self):
        self.assertEqual(peers.parse_extra("mine=,A=1,B=2"), Contender("mine", None, (("A", "1"), ("B", "2"))))
        for wrong in ("mine", "=/x", "mine=,oops", "mine=/no/such/library.so"):
            with self.assertRaises(ContenderError, msg=wrong):
                peers.parse_extra(wrong)

    def test_thread_counts_end_at_the_processors(self):
        expected = {1: [1], 2: [1, 2], 12: [1, 2, 4, 8, 12], 64: [1, 2, 4, 8, 16, 32, 64]}
        self.assertEqual({count: malloc.thread_counts(count) for count in expected}, expected)
        self.assertEqual(malloc.asked_thread_counts("4,1,4"), [1, 4])
        for wrong in ("0", "1,x", "-1"):
            with self.assertRaises(ContenderError, msg=wrong):
                malloc.asked_thread_counts(wrong)

    def test_time_per_item(self):
        output = {"benchmarks": [{"name": "hand_over/real_time", "items_per_second": 2e7}, {"name": "broken"}]}
        self.assertEqual(malloc.read_calls({}, self.launcher(json.dumps(output))), {"hand_over, ns": 50.0})

    def test_a_program_that_refuses_the_preload_is_left_out(self):
        here = [Contender("glibc", None), Contender("tarn", Path("/x.so"))]
        self.assertIsNone(real_programs.refused("/no/such/program", here[:1]))
        self.assertIn("does not load", real_programs.refused("/no/such/program", here))

    def test_generated_inputs_are_the_same_every_time(self):
        self.assertEqual(inputs.fast_import_stream(5), inputs.fast_import_stream(5))
        self.assertIn(b"M 100644 inline src/file_", inputs.fast_import_stream(5))


class PoolsTest(SuiteTest):
    def test_new_and_delete_run_under_each_malloc_and_pools_once(self):
        for scene in pools.SCENES:
            self.program(f"pools_{scene}", "new-delete", "tarn-pool-of")
        (self.build / "lib").mkdir()
        (self.build / "lib" / "libtarn.so").write_text("")
        found = pools.plan(self.options("pools"), self.build)
        who = {task.contender: task.kind for task in found.cells[0].tasks}
        self.assertEqual(who["new/delete, glibc"], "malloc")
        self.assertEqual(who["new/delete, tarn"], "tarn")
        self.assertEqual(who["tarn::pool_of"], "tarn")
        self.assertTrue(all(len(cell.tasks) == len(who) for cell in found.cells))
        self.assertEqual([cell.scene for cell in found.cells if not cell.touch], ["memory"])
        chosen = select(found.cells, Patterns("slots"), Patterns("tarn*, *glibc"), ())
        self.assertEqual([task.contender for task in chosen[0].tasks], ["new/delete, glibc", "tarn::pool_of"])
        self.assertEqual(chosen[1].tasks[0].command[1:], ("new-delete", "2", "1000"))
        self.program("pools_ring", "unheard-of")
        with self.assertRaisesRegex(ContenderError, "unheard-of"):
            pools.plan(self.options("pools"), self.build)

    def test_a_library_without_contenders_is_named(self):
        notices = pools.missing_libraries({"boost-pool", "tarn-pool-of"})
        self.assertEqual(len(notices), 2)
        self.assertIn("libboost-container-dev", notices[0])
        self.assertIn("libfoonathan-memory-dev", notices[1])


class RecyclersTest(SuiteTest):
    def setUp(self):
        super().setUp()
        for scene in recyclers.SCENES:
            self.program(f"recyclers_{scene}")

    def cells(self, found: Peers, processors: int = 2, patterns: str | None = None, notices=None, others=()) -> list[Cell]:
        cells = recyclers.cells(self.options("recyclers"), found, list(others), processors, [] if notices is None else notices)
        return select(cells, Patterns(None), Patterns(patterns), ())

    def test_everyone_takes_part_where_he_has_the_scene(self):
        found = self.cells(Peers(Path("/go.test"), Path("/netty")))
        by_scene = {(cell.scene, cell.key): [task.contender for task in cell.tasks] for cell in found}
        self.assertEqual(len(by_scene), 7)
        self.assertIn("Netty Recycler", by_scene["cross", "1 processor"])
        self.assertNotIn("Netty Recycler", by_scene["json", ""])
        self.assertIn("Go, kept by hand", by_scene["json", ""])
        self.assertNotIn("Go, kept by hand", by_scene["cross", "1 processor"])
        bare = "tarn::recycler, take/give_back"
        self.assertEqual([scene for (scene, _), who in by_scene.items() if bare in who], ["get_release", "burst100"])

    def test_new_objects_run_under_other_mallocs_where_the_program_has_no_malloc_of_its_own(self):
        other = Contender("other", Path("/other.so"))
        found = self.cells(Peers(), patterns="*other", others=[other])
        self.assertEqual({cell.scene for cell in found}, set(recyclers.SMALL))
        task = found[0].tasks[0]
        self.assertEqual((task.contender, task.kind, task.malloc), ("C++, fresh, other", "reference", other))
        self.assertEqual(task.command[1], recyclers.FRESH)

    def test_processors_reach_the_command(self):
        found = self.cells(Peers(Path("/go.test"), Path("/netty")), patterns="Go sync.Pool,Netty*")
        tasks = {(cell.scene, cell.key): cell.tasks for cell in found}
        self.assertIn("-test.cpu=1", tasks["cross", "1 processor"][0].command)
        self.assertIn("-test.cpu=2", tasks["cross", "2 processors"][0].command)
        self.assertEqual(tasks["cross", "2 processors"][0].processors, 2)
        self.assertIn("-test.bench=^BenchmarkParallelRecycled$", tasks["parallel", "2 processors"][0].command)
        self.assertIn("-test.bench=^BenchmarkBuffer10kRecycled$", tasks["buffer10k", ""][0].command)
        jmh_words = tasks["parallel", "2 processors"][1].command
        self.assertEqual(jmh_words[jmh_words.index("-t") + 1], "2")
        self.assertEqual(jmh_words[-1], r"\.getReleaseRecycled$")
        self.assertIn(RESULT_FILE, jmh_words)

    def test_one_processor_leaves_out_what_wants_two(self):
        notices: list[str] = []
        found = self.cells(Peers(), 1, None, notices)
        self.assertEqual([cell.key for cell in found if cell.scene in ("parallel", "cross")], ["1 processor"])
        self.assertEqual(len(notices), 2)

    def test_missing_programs(self):
        (self.build / "bench" / "recyclers_json").unlink()
        notices: list[str] = []
        found = self.cells(Peers(Path("/go.test")), notices=notices)
        self.assertIn("libsimdjson-dev", notices[0])
        labels = [task.contender for cell in found for task in cell.tasks if cell.scene == "json"]
        self.assertEqual(labels, ["Go, fresh", "Go, kept by hand", "Go sync.Pool"])
        (self.build / "bench" / "recyclers_cross").unlink()
        with self.assertRaisesRegex(ContenderError, "build the benchmarks first"):
            self.cells(Peers())

    def test_who_allocates_does_not_recycle(self):
        line = "BenchmarkCrossRecycled-2 100 8.5 ns/op 64 B/op 1 allocs/op\n"
        by_scene = {cell.scene: cell.tasks[0] for cell in self.cells(Peers(Path("/go.test")), patterns="Go sync.Pool")}
        with self.assertRaisesRegex(RunFailed, "nothing was reused"):
            by_scene["cross"].read({}, self.launcher(line))
        figures = by_scene["json"].read({}, self.launcher(line.replace("Cross", "Json")))
        self.assertEqual(figures, {"ns": 8.5, "bytes": 64, "allocations": 1})

    def test_a_program_without_a_figure_is_refused(self):
        self.assertEqual(recyclers.read_own({}, self.launcher('{"ns": 2.5}')), {"ns": 2.5})
        for output in ('{"ns": 0}', "[]", "no json"):
            with self.assertRaises((RunFailed, ValueError), msg=output):
                recyclers.read_own({}, self.launcher(output))


class BuffersTest(SuiteTest):
    def test_sizes_and_huge_pages_reach_the_programs(self):
        self.program("buffers_loops")
        self.program("buffers_loops_tarn")
        cells = buffers.plan(self.options("buffers", "--sizes", "8,64", "--huge-pages", "never"), None).cells
        self.assertEqual([cell.key for cell in cells], ["8 MiB", "64 MiB"])
        own, first = cells[1].tasks[:2]
        self.assertEqual((own.contender, own.command[0][-5:], own.command[1:]), ("tarn", "_tarn", ("64", "500")))
        self.assertEqual((first.contender, first.command[0][-5:], first.malloc.library), ("glibc", "loops", None))
        self.assertEqual(own.environment, {"TARN_HUGE_PAGES": "never"})

    def test_figures_of_each_way(self):
        output = '{"mib": 8, "pool": {"us": 2.0, "faults": 0.5}, "mmap": {"us": 9.0, "faults": 3}}'
        expected = {"pool us": 2.0, "pool faults": 0.5, "mmap us": 9.0, "mmap faults": 3}
        self.assertEqual(buffers.read({}, self.launcher(output)), expected)


class ProfilerTest(SuiteTest):
    def test_the_summary_is_the_last_line(self):
        launcher = self.launcher("")
        summary = {"program": {"user_ns": 1.5e9, "system_ns": 0.5e9, "lost_events": 3}}
        launcher.errors.write_text(f"words of the program\n{json.dumps(summary)}\n")
        expected = {"cpu": 2.0, "wall": 7.0, "lost_events": 3}
        self.assertEqual(profiler.read_profiled({"wall": 7.0}, launcher), expected)
        for text in ("", "{}\n", "words\n"):
            launcher.errors.write_text(text)
            with self.assertRaises((RunFailed, ValueError), msg=text):
                profiler.read_profiled({"wall": 7.0}, launcher)


if __name__ == "__main__":
    unittest.main()
