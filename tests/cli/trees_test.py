# SPDX-License-Identifier: MIT
"""End-to-end: `tarn profile` of programs that start others gives one verdict for the tree; `tarn merge` joins the
files, and --process chooses one process of a merged file."""
import glob
import json
import os

from harness import settings
from profile_test import END, ProfileBase

BURN = """#include <ctime>
    #include <sys/wait.h>
    #include <unistd.h>
    #include <cstdlib>
    static void burn(double seconds) {
      void* volatile block = std::malloc(100);
      std::free(block);
      timespec now = {};
      do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
    }
    int main(int count, char** words) {
      if (count > 2) {
        burn(0.2);
        execvp(words[1], words + 1);
        return 1;
      }
      for (int child = 0; child < 3; ++child) {
        if (fork() == 0) { burn(0.1); _exit(0); }
      }
      while (wait(nullptr) > 0) {}
    }"""


class trees(ProfileBase):
    def tree(self, script, status=0):
        """The summary that `tarn profile --json` prints for this shell script."""
        result = self.execute(settings.tarn, "profile", "--mode", "full", "--json", "-o", "x.prof", "--", "sh", "-c", script,
                              variables=dict(TARGET=settings.profile_target), code=status)
        return json.loads(result.stderr)

    def tarn(self, *words, status=0):
        result = self.execute(settings.tarn, *words, code=status)
        return result.stdout if status == 0 else result.stderr

    def sites(self, *words):
        listed = json.loads(self.tarn("show", *words, "--json", "-n", "0"))["sites"]
        return {site["function"]: site["allocations"] for site in listed}

    def churned(self, *words):
        return sum(count for name, count in self.sites(*words).items() if "churn" in name)

    def test_the_verdict_is_of_the_tree(self):
        tree = self.tree('"$TARGET" churn 20000; "$TARGET" exact 2; true')["tree"]
        self.assertEqual(tree["processes"], 3)
        self.assertEqual(tree["table"][0]["command"], "cli_profile_target")
        costs = [row["cost_ns"] for row in tree["table"]]
        self.assertEqual(costs, sorted(costs, reverse=True))
        self.assertAlmostEqual(tree["cost_ns"], sum(costs), delta=1)
        self.assertGreaterEqual(tree["allocations"], 60000)
        self.assertEqual({row["file"] for row in tree["table"]},
                         {"x.prof", *(os.path.basename(path) for path in glob.glob(self.folder + "/x-*.prof"))})
        self.assertLessEqual(tree["cpu_ns"], 1.1 * tree["system_cpu_ns"] + 2e7)

    def test_the_summary_has_a_line_for_each_process_and_its_costliest_sites(self):
        script = '"$TARGET" churn 20000; "$TARGET" exact 2; true'
        result = self.execute(settings.tarn, "profile", "-o", "x.prof", "--", "sh", "-c", script,
                              variables=dict(TARGET=settings.profile_target))
        lines = result.stderr.splitlines()
        self.assertTrue(lines[0].startswith("tarn: 3 processes: "), result.stderr)
        self.assertTrue(any("cli_profile_target exact 2" in line and "x-" in line for line in lines), result.stderr)
        self.assertTrue(any("sh -c" in line and "x.prof" in line for line in lines), result.stderr)
        self.assertIn("touch_all", result.stderr)

    def test_small_programs_are_in_the_sums(self):
        tree = self.tree('for i in 1 2 3 4 5 6; do "$TARGET" churn 500; done; true')["tree"]
        rows = {row["command"]: row for row in tree["table"]}
        small = rows["cli_profile_target"]
        self.assertEqual((small["processes"], small["pid"], small["file"]), (6, None, None))
        self.assertGreaterEqual(small["allocations"], 6 * 500)
        self.assertGreater(small["cpu_ns"], 0)
        self.assertLessEqual(small["cost_ns"], small["cpu_ns"] + 1)
        self.assertEqual(tree["processes"], 7)

    def test_many_small_programs_have_a_file_together(self):
        summary = self.tree('for i in 1 2 3 4 5 6; do "$TARGET" churn 3000; done; true')
        self.assertEqual([file["path"] for file in summary["files"]], ["x.prof", "x-small.prof"])
        self.assertEqual(self.churned("x-small.prof"), 6 * 3000)
        merged = json.loads(self.tarn("merge", "x.prof", "x-small.prof", "-o", "all.prof", "--json"))
        self.assertEqual(sum(row["processes"] for row in merged["processes"]), 7)
        self.assertAlmostEqual(merged["cost_ns"], summary["tree"]["cost_ns"], delta=1 + 1e-6 * merged["cost_ns"])
        self.assertEqual(self.churned("all.prof", "--process", "sh"), 0)

    def test_processor_time_of_children_is_added_to_their_parent(self):
        program = self.compile("burn", BURN, "-O1", "-fno-builtin")
        tree = self.tree(f"exec {program}")["tree"]
        # The shell has executed the program in its place: the program's row is that process and its three children.
        row, = (one for one in tree["table"] if one["command"] == "burn")
        self.assertEqual(row["processes"], 4)
        self.assertGreater(row["cpu_ns"], 0.28e9)

    def test_processor_time_before_exec_belongs_to_the_earlier_program(self):
        program = self.compile("burn", BURN, "-O1", "-fno-builtin")
        tree = self.tree(f"{program} sh -c true; true")["tree"]
        rows = {row["command"]: row["cpu_ns"] for row in tree["table"]}
        self.assertGreater(rows["burn"], 0.18e9)
        self.assertLess(rows["sh"], 0.15e9)

    def test_merged_files_are_one_program_or_each_process(self):
        self.tree('"$TARGET" churn 20000; "$TARGET" churn 30000; true')
        files = sorted(glob.glob(self.folder + "/x*.prof"))
        self.assertEqual(len(files), 3)
        told = self.tarn("merge", *files, "-o", "all.prof")
        self.assertTrue(told.startswith("all.prof: 3 processes of 3 files"), told)
        self.assertEqual(self.churned("all.prof"), 50000)
        rows = json.loads(self.tarn("merge", *files, "-o", "all.prof", "--json"))["processes"]
        processes = {row["pid"]: row for row in rows}
        counts = {self.churned("all.prof", "--process", str(pid)) for pid in processes}
        self.assertEqual(counts, {0, 20000, 30000})
        self.assertEqual(self.churned("all.prof", "--process", "cli_profile_target"), 50000)
        # A site is one row, although each process has the program at another address.
        whole = json.loads(self.tarn("show", "all.prof", "--json", "-n", "0", "--filter", "churn"))["sites"]
        one = json.loads(self.tarn("show", files[0], "--json", "-n", "0", "--filter", "churn"))["sites"]
        self.assertEqual(len(whole), max(len(one), 1))
        flame = json.loads(self.tarn("show", "--by", "tree", "all.prof", "--metric", "allocations", "--json"))
        self.assertAlmostEqual(flame["value"], sum(row["allocations"] for row in rows), delta=1)
        for words in (["export", "--json", "all.prof"], ["export", "--pprof", "-o", "all.pb.gz", "all.prof"],
                      ["advise", "all.prof"], ["report", "all.prof"], ["diff", "all.prof", "all.prof"],
                      ["merge", "all.prof", "-o", "again.prof"]):
            self.tarn(*words)
        self.assertEqual(self.sites("again.prof"), self.sites("all.prof"))

    def test_merge_refuses(self):
        self.tree('"$TARGET" churn 100; true')
        self.assertIn("given twice", self.tarn("merge", "x.prof", "./x.prof", "-o", "all.prof", status=2))
        self.assertIn("one of the files", self.tarn("merge", "x.prof", "-o", "./x.prof", status=2))
        self.assertIn("-o", self.tarn("merge", "x.prof", status=2))
        self.assertIn("no.prof", self.tarn("merge", "x.prof", "no.prof", "-o", "all.prof", status=125))
        self.assertIn("/no/such", self.tarn("merge", "x.prof", "-o", "/no/such/all.prof", status=125))
        self.write("text.prof", "no profile")
        self.tarn("merge", "x.prof", "text.prof", "-o", "all.prof", status=125)
        self.assertFalse(os.path.exists(self.folder + "/all.prof"))
        self.tarn("merge", "x.prof", "-o", "all.prof")
        self.assertIn("sh", self.tarn("show", "all.prof", "--process", "nobody", status=2))
        self.assertIn("no such process", self.tarn("show", "x.prof", "--process", "7", status=2))
        self.assertIn("/dev/full", self.tarn("merge", "x.prof", "-o", "/dev/full", status=125))

    def test_a_single_program_has_no_table_of_processes(self):
        result = self.execute(settings.tarn, "profile", "-o", "x.prof", "--", settings.profile_target, "churn", "10")
        self.assertEqual(result.returncode, END)
        self.assertNotIn("processes:", result.stderr)
