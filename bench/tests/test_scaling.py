# SPDX-License-Identifier: MIT
"""The model of many processors: known cases, and what is read from the counters."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import support  # noqa: F401  (sets the path)
from scaling import chart, command, counters, model
from scaling.counters import Lock, Sample
from scaling.model import Inputs, Machine, Shared, simulate

NEAR = Machine(line_ns=50.0, apart_ns=10.0)


def lock(acquisitions: float, held: float, transfers: float = 0.0, held_after: float = 0.0, locks: int = 1) -> Lock:
    """By acquisitions per operation, and the nanoseconds of one."""
    figures = dict.fromkeys(counters.FIGURES, 0.0)
    kept = acquisitions - transfers
    figures.update(acquisitions=acquisitions, transfers=transfers, held_ns=kept * held + transfers * held_after,
                   held_after_transfer_ns=transfers * held_after)
    return Lock(locks, figures)


class Simulation(unittest.TestCase):
    def test_without_locks_an_operation_is_its_work(self):
        self.assertEqual(simulate({}, 30.0, NEAR, 64), 30.0)

    def test_one_processor_neither_waits_nor_gets_lines(self):
        shared = {"page_heap": Shared(rate=0.5, held_ns=20.0, lines=3.0)}
        self.assertAlmostEqual(simulate(shared, 30.0, NEAR, 1), 40.0, delta=1.0)

    def test_a_lock_bounds_the_throughput(self):
        shared = {"page_heap": Shared(rate=1.0, held_ns=20.0, lines=1.0)}
        # Nearly every acquisition is a transfer: 20 ns and two lines. 128 processors wait for each other.
        self.assertAlmostEqual(simulate(shared, 100.0, NEAR, 128) / 128, 120.0, delta=3.0)

    def test_a_lock_for_each_home_bounds_each_home(self):
        shared = {"depot 64": Shared(rate=1.0, held_ns=20.0, lines=0.0, homes=16)}
        alone = simulate(shared, 100.0, NEAR, 1)
        self.assertAlmostEqual(simulate(shared, 100.0, NEAR, 16), alone, delta=0.03 * alone)
        self.assertAlmostEqual(simulate(shared, 1.0, NEAR, 256) / 16, 70.0, delta=3.0)

    def test_who_strays_pays_for_lines(self):
        home = Shared(rate=1.0, held_ns=20.0, lines=0.0, homes=16)
        stray = Shared(rate=1.0, held_ns=20.0, lines=0.0, homes=16, stray=0.5)
        self.assertGreater(simulate({"depot 64": stray}, 500.0, NEAR, 16), simulate({"depot 64": home}, 500.0, NEAR, 16) + 20)

    def test_lines_from_the_other_socket_take_longer(self):
        shared = {"page_heap": Shared(rate=1.0, held_ns=20.0, lines=1.0)}
        two = Machine(50.0, 10.0, far=3.0, sockets=2)
        # Half of the transfers come from the other socket: each of the two lines takes 100 ns on the average.
        self.assertAlmostEqual(simulate(shared, 100.0, two, 128) / 128, 220.0, delta=8.0)

    def test_the_same_seed_gives_the_same_figure(self):
        shared = {"page_heap": Shared(rate=0.3, held_ns=20.0, lines=1.0)}
        self.assertEqual(simulate(shared, 50.0, NEAR, 8), simulate(shared, 50.0, NEAR, 8))


class Sockets(unittest.TestCase):
    def test_processors_are_divided_evenly(self):
        machine = Machine(50.0, 10.0, sockets=2)
        self.assertEqual([machine.socket(p, 4) for p in range(4)], [0, 0, 1, 1])
        self.assertEqual(machine.socket(0, 1), 0)
        self.assertEqual([machine.socket(p, 2) for p in range(2)], [0, 1])

    def test_mean_distance(self):
        machine = Machine(50.0, 10.0, far=3.0, sockets=2)
        self.assertEqual(machine.mean_distance(1), 1.0)
        self.assertEqual(machine.mean_distance(2), 3.0)
        self.assertAlmostEqual(machine.mean_distance(4), 1 + 2 * 2 / 3)
        self.assertEqual(NEAR.mean_distance(64), 1.0)


class Measured(unittest.TestCase):
    def test_the_difference_of_two_runs_is_the_steady_state(self):
        short = [{"name": "page_heap", "acquisitions": 100, "held_ns": 1000}]
        long = [{"name": "page_heap", "acquisitions": 140, "held_ns": 1800, "locks": 1},
                {"name": "depot", "object_size": 64, "acquisitions": 20, "transfers": 10, "locks": 3},
                {"name": "registry", "acquisitions": 0}]
        steady = counters.difference(short, long, 20.0)
        self.assertEqual(sorted(steady), ["depot 64", "page_heap"])
        self.assertEqual(steady["page_heap"].figures["acquisitions"], 2.0)
        self.assertEqual(steady["page_heap"].figures["held_ns"], 40.0)
        self.assertEqual(steady["depot 64"].figures["transfers"], 0.5)
        self.assertEqual(steady["depot 64"].locks, 3)

    def test_the_longest_time_does_not_count(self):
        alone = {"name": "page_heap", "acquisitions": 100, "held_ns": 5000, "held_after_transfer_ns": 400, "longest_held_ns": 4000}
        self.assertEqual(counters.without_longest(alone)["held_ns"], 1000)
        self.assertEqual(counters.without_longest(alone)["held_after_transfer_ns"], 400)
        after = alone | {"held_after_transfer_ns": 4400}
        self.assertEqual(counters.without_longest(after)["held_after_transfer_ns"], 400)

    def test_a_count_that_is_lower_in_the_longer_run_is_nothing(self):
        short = [{"name": "guarded", "acquisitions": 10}]
        self.assertEqual(counters.difference(short, [{"name": "guarded", "acquisitions": 9}], 1.0), {})

    def test_medians_are_taken_figure_by_figure(self):
        samples = [Sample(seconds, 0.0, {"page_heap": lock(rate, 10.0)}) for seconds, rate in ((1, 3), (2, 1), (9, 2))]
        samples[0].locks["rare"] = lock(1.0, 10.0)
        middle = counters.median_sample(samples)
        self.assertEqual(middle.seconds, 2)
        self.assertEqual(middle.locks["page_heap"].figures["acquisitions"], 2)
        self.assertNotIn("rare", middle.locks)
        self.assertEqual(counters.from_json(json.loads(json.dumps(counters.to_json(middle)))), middle)

    def test_held_alone_leaves_out_transfers_and_the_counting_itself(self):
        self.assertAlmostEqual(model.held_alone(lock(1.0, 58.0, transfers=0.5, held_after=208.0), 8.0), 50.0)
        self.assertIsNone(model.held_alone(lock(1.0, 0.0, transfers=1.0, held_after=208.0), 8.0))

    def test_lines_are_what_a_transfer_takes_longer(self):
        moved = lock(1.0, 58.0, transfers=0.5, held_after=208.0)
        self.assertAlmostEqual(model.lines_of(moved, 50.0, 50.0, 8.0), 3.0)
        self.assertIsNone(model.lines_of(lock(1.0, 58.0), 50.0, 50.0, 8.0), "nothing was moved")
        self.assertEqual(model.lines_of(lock(1.0, 58.0, 0.5, 30.0), 50.0, 50.0, 8.0), 0.0)

    def test_stray_share(self):
        self.assertEqual(model.stray_share(lock(1.0, 10.0), 16), 0.0)
        always = lock(1.0, 10.0, transfers=0.5)
        self.assertAlmostEqual(model.stray_share(always, 2), 0.5)
        self.assertAlmostEqual(model.stray_share(always, 16), 15 / 16)

    def test_depots_of_small_objects_are_per_home_once_there_are_several(self):
        sample = Sample(0.0, 0.0, {"depot 64": lock(1, 1, locks=2), "depot 80": lock(1, 1), "depot 512": lock(1, 1, locks=2),
                                   "page_heap": lock(1, 1)})
        per_home = [key for key in sample.locks if model.is_per_home(key, sample)]
        self.assertEqual(per_home, ["depot 64"])

    def test_one_processor_takes_what_was_measured(self):
        counted = Sample(0.0, 0.0, {"page_heap": lock(0.1, 28.0)})
        inputs = Inputs(alone=40e-9, counted={1: counted, 2: counted}, company=1.5)
        self.assertAlmostEqual(model.operation_ns(inputs, NEAR, 1), 40.0, delta=0.5)
        # 38 ns of work, half as long again beside others; and 20 ns for one acquisition in ten.
        self.assertAlmostEqual(model.work_with_others(inputs, NEAR, 2), 57.0)

    def test_blocks_of_other_threads_cost_lines(self):
        counted = {1: Sample(0.0, 0.0, {}), 2: Sample(0.0, 0.4, {}), 8: Sample(0.0, 0.8, {})}
        inputs = Inputs(alone=40e-9, counted=counted, lines=1.0)
        self.assertAlmostEqual(model.work_with_others(inputs, NEAR, 2), 40 + (0.4 + 0.5) * 10)
        self.assertAlmostEqual(model.work_with_others(inputs, NEAR, 16), 40 + (0.8 + 15 / 16) * 10)

    def test_a_lock_that_is_wanted_more_than_once_is_first(self):
        counted = {1: Sample(0.0, 0.0, {"page_heap": lock(0.5, 28.0), "metadata": lock(0.001, 28.0)})}
        wanted = model.demand(Inputs(alone=50e-9, counted=counted), NEAR, 64)
        self.assertEqual([key for _, key in wanted], ["page_heap", "metadata"])
        self.assertGreater(wanted[0][0], 1.0)


class Quiet(unittest.TestCase):
    def test_an_undisturbed_run_counts_at_once(self):
        calls = []
        quiet = counters.Quiet(patience_s=0.0, most=1e9)
        self.assertEqual(quiet.run("0", lambda: calls.append(1) or 7), 7)
        self.assertEqual((len(calls), quiet.disturbed), (1, 0))

    def test_without_patience_a_disturbed_run_counts_and_is_told(self):
        quiet = counters.Quiet(patience_s=0.0, most=-1.0)
        self.assertEqual(quiet.run("0", lambda: 7), 7)
        self.assertEqual(quiet.disturbed, 1)


class Page(unittest.TestCase):
    def session(self) -> dict:
        counted = {str(threads): counters.to_json(Sample(0.0, 0.0, {"page_heap": lock(0.1, 28.0, 0.05, 100.0)}))
                   for threads in (1, 2)}
        data = {"timed": {"1": [40e-9, 41e-9, 39e-9], "2": [60e-9, 61e-9, 59e-9], "apart": [44e-9]}, "counted": counted}
        return {"machine": {}, "line_ns": 50.0, "independent_line_ns": 10.0, "threads": [1, 2], "disturbed_runs": 0,
                "libraries": {"tarn": {"larson": data}}}

    def test_the_tables_show_the_model_beside_what_was_measured(self):
        inputs = command.inputs_of(self.session())
        row = chart.check_table(self.session(), inputs).rows[0]
        self.assertEqual(row[:3], ["larson, tarn", "40.0", "39.0 to 41.0"])
        self.assertEqual(row[4], "60.0", "two processors")
        self.assertEqual(len(chart.growth_table(self.session(), inputs).rows), 2)
        self.assertEqual(chart.lock_table(self.session(), inputs).rows[0][0], "larson, tarn: page_heap")

    def test_a_session_is_shown_again_without_measuring(self):
        with tempfile.TemporaryDirectory() as folder:
            session, page = Path(folder) / "s.json", Path(folder) / "page.md"
            session.write_text(json.dumps(self.session()))
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                status = command.main(["--from-json", str(session), "--markdown", str(page)])
            self.assertEqual(status, 0)
            self.assertIn("larson, tarn, 2", out.getvalue())
            self.assertIn("| larson, tarn: page_heap |", page.read_text())


if __name__ == "__main__":
    unittest.main()
