# SPDX-License-Identifier: MIT
"""End-to-end tests of `tarn show`, `diff` and `export` on synthetic profiles."""
import gzip
import json
import os
import re
import shutil
import sqlite3

from harness import MadeProfiles, settings, tarn

METRICS = ["cost", "malloc", "hidden", "faults", "allocations", "bytes", "live", "live_bytes", "peak"]


class Profiles(MadeProfiles):
    def run_tarn(self, *words, code=0):
        return tarn(*words, code=code)

    def totals(self, path):
        return json.loads(self.run_tarn("export", "--json", path).stdout)["totals"]


class profile_views(Profiles):
    def test_totals_agree_in_every_view(self):
        path = self.make("a.tarn")
        whole = json.loads(self.run_tarn("export", "--json", path).stdout)
        totals = whole["totals"]
        self.assertEqual(sorted(totals), sorted(METRICS))
        by_site = sum(site["cost_ns"]["total"] for site in whole["sites"])
        self.assertLess(by_site, totals["cost"])  # the total includes the faults of no site
        self.assertGreater(by_site, 0.9 * totals["cost"])
        for metric in METRICS:
            sites = json.loads(self.run_tarn("show", "-n", "0", "--metric", metric, "--json", path).stdout)
            self.assertAlmostEqual(sites["total"] / totals[metric], 1)
            self.assertAlmostEqual(sites["shown"] / sites["total"], 1)
            self.assertAlmostEqual(sum(row[metric] for row in sites["sites"]) / totals[metric], 1)
            for inverted in ([], ["--inverted"]):
                tree = json.loads(self.run_tarn("show", "--by", "tree", "--metric", metric, "--json", *inverted, path).stdout)
                self.assertAlmostEqual(tree["value"] / totals[metric], 1)
                self.check_tree(tree)
            lines = self.run_tarn("export", "--collapsed", "--metric", metric, path).stdout.splitlines()
            self.assertAlmostEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines) / totals[metric], 1, places=4)
            text = self.run_tarn("export", "--prometheus", path).stdout
            unit = 1e-9 if metric in ("cost", "malloc", "hidden") else 1
            name = metric + ("_seconds" if unit != 1 else "_bytes" if metric == "peak" else "")
            exported = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                        if line.startswith(f"tarn_profile_{name}{{")]
            self.assertAlmostEqual(sum(exported) / totals[metric] / unit, 1)

    def check_tree(self, node):
        children = sum(child["value"] for child in node["children"])
        self.assertLessEqual(abs(children + node["own"] - node["value"]), 1e-6 * node["value"] + 1)
        for child in node["children"]:
            self.check_tree(child)

    def test_sites(self):
        path = self.make("a.tarn")
        lines = self.run_tarn("show", "-n", "3", path).stdout.splitlines()
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines[0].split(), [*METRICS, "type", "where"])
        self.assertIn("image::decoder::decode  decoder.cpp:10", lines[1])
        self.assertIn("[others: 199 places]", lines[-2])
        self.assertRegex(lines[-1], r"^3 of 202 places: [\d.]+ s of [\d.]+ s in total \([\d.]+ % of \d+ s processor time\)$")
        lines = self.run_tarn("show", "--filter", "json::parser", path).stdout.splitlines()
        self.assertTrue(all("json::" in line for line in lines[1:-1]))
        self.assertIn("places that match", lines[-1])
        self.assertIn("0 of 0", self.run_tarn("show", "--filter", "no such thing", path).stdout)

    def test_flame(self):
        path = self.make("a.tarn")
        text = self.run_tarn("show", "--by", "tree", path).stdout
        self.assertIn("main  main.cpp:40", text)
        self.assertIn("[faults outside of allocated memory]", self.run_tarn("show", "--by", "tree", "--min", "0", path).stdout)
        self.assertNotIn("decode", self.run_tarn("show", "--by", "tree", "--depth", "2", path).stdout)
        inverted = self.run_tarn("show", "--by", "tree", "--inverted", "--depth", "1", path).stdout.splitlines()
        self.assertIn("image::decoder::decode", inverted[2])

    def test_a_path_that_is_too_deep_for_the_tree(self):
        """A profile of pprof of a few bytes may have it."""
        def number(value):
            return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])

        def field(tag, value):
            return number(tag << 3 | 2) + number(len(value)) + value if isinstance(value, bytes) else number(tag << 3) + number(value)
        path = self.path("deep.pb.gz")
        texts = [b"", b"inuse_objects", b"count", b"inuse_space", b"bytes", b"deep"]
        for depth, is_cut in ((400, False), (500, False), (501, True), (200000, True)):
            message = field(1, field(1, 1) + field(2, 2)) + field(1, field(1, 3) + field(2, 4)) + b"".join(field(6, each) for each in texts)
            message += field(5, field(1, 1) + field(2, 5)) + field(4, field(1, 1) + field(4, field(1, 1) + field(2, 1)))
            message += field(2, field(1, b"\1" * depth) + field(2, number(1) + number(1000)))
            with gzip.open(path, "wb") as file:
                file.write(message)
            for words in ([], ["--inverted"], ["--depth", "100000"]):
                text = self.run_tarn("show", "--by", "tree", *words, path).stdout
                self.assertEqual(text.count(" deep\n"), min(depth, 500), text[-300:])
                self.assertEqual("(deeper frames are left out)" in text, is_cut)
            self.assertNotIn("left out", self.run_tarn("show", "--by", "tree", "--depth", "2", path).stdout)
            text = self.run_tarn("show", "--by", "tree", "--json", path).stdout
            self.assertEqual((text.count('"deep"'), text.count('"left_out":"deeper frames"')), (min(depth, 500), is_cut))

    def test_sample_mode_and_no_symbols(self):
        path = self.make("a.tarn", 100, 50, 1, "sample", "nosymbols")
        result = self.run_tarn("show", path)
        self.assertIn("?? (order_server)", result.stdout)
        self.assertIn("/opt/exchange/bin/order_server: the file does not exist any more", result.stderr)

    def test_differences(self):
        one, same, other = self.make("a.tarn"), self.make("b.tarn"), self.make("c.tarn", 100, 230)
        result = self.run_tarn("diff", one, same, "--fail-if", "cost>+0%", "--fail-if", "site.bytes>+0%")
        self.assertNotIn("where", result.stdout)
        self.run_tarn("diff", one, other, "--fail-if", "cost>+5%", "--fail-if", "bytes>+10%",
                      "--fail-if", "peak > 100G")
        # Two runs of one command differ by as much: the limit is not exceeded.
        self.run_tarn("diff", one, other, "--fail-if", "cost>+0%")
        result = self.run_tarn("diff", one, other, "--fail-if", "allocations>+0%", code=1)
        self.assertRegex(result.stdout, r"beyond allocations>\+0%: allocations changed by \+\d")
        self.run_tarn("diff", other, one, "--fail-if", "allocations<-0.01%", code=1)
        result = self.run_tarn("diff", other, one, "--fail-if", "live<-10", "--json", code=1)
        changes = json.loads(result.stdout)
        self.assertEqual(len(changes["exceeded"]), 1)
        before, after = self.totals(other), self.totals(one)
        for metric in METRICS:
            self.assertAlmostEqual(changes["totals"][metric]["before"] / before[metric], 1)
            self.assertAlmostEqual(changes["totals"][metric]["after"] / after[metric], 1)
        gone = [site for site in changes["sites"] if site["cost"]["after"] == 0]
        self.assertTrue(gone)

    def test_negligible_differences_are_not_listed_one_by_one(self):
        one, other = self.make("a.tarn"), self.make("c.tarn", 100, 230)
        def changes(rows):
            shown = self.run_tarn("diff", "-m", "allocations", "-n", rows, one, other).stdout.split(" where\n")[1]
            return [abs(float(number.replace(",", ""))) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit] for number, unit in
                    re.findall(r"(?m)^ *[-+]([\d.,]+)([kMG]?) +.*\w", re.sub(r"(?m)^.* others \(.*\n", "", shown))]
        self.assertLess(min(changes("0")), 0.0009 * max(changes("0")))
        self.assertGreater(min(changes("1000")), 0.0009 * max(changes("0")))

    def test_bad_limits(self):
        path = self.make("a.tarn")
        for expression, phrase in (("cost", "needs > or <"), ("costs>5%", "there is no metric 'costs'"),
                                   ("cost>x", "no number"), ("cost>5M", "ns, us, ms or s"),
                                   ("bytes>5ms", "none, K, M or G"), ("cost>nan", "no number")):
            self.assert_refused(tarn("diff", path, path, "--fail-if", expression), 2, "--fail-if", phrase)


# The call path of a site, innermost first.
PATH = """WITH RECURSIVE path(depth, stack) AS (
  SELECT 0, stack FROM sites WHERE id = ?
  UNION ALL SELECT depth + 1, parent FROM path JOIN stacks ON stacks.id = stack WHERE parent <> 0)
SELECT function, file, line FROM path JOIN stacks ON stacks.id = stack JOIN frames USING (address) ORDER BY depth, position"""


class profile_exports(Profiles):
    def test_pprof(self):
        path = self.make("a.tarn")
        output = self.path("a.pb.gz")
        self.run_tarn("export", "--pprof", path, "-o", output)
        with gzip.open(output) as file:
            self.assertIn(b"image::decoder::decode", file.read())
        if not shutil.which("go"):
            self.skipTest("go is not installed; apt-get install golang-go")
        totals = self.totals(path)
        for metric in METRICS:
            text = self.execute("go", "tool", "pprof", "-raw", f"-sample_index={metric}", output, code=0).stdout
            samples = text[text.index("Samples:"):text.index("Locations")].splitlines()
            names = [word.split("/")[0] for word in samples[1].split()]
            self.assertEqual(names, METRICS)
            column = METRICS.index(metric)
            rows = [line.split(":")[0].split() for line in samples[2:] if re.match(r"^ *\d", line)]
            self.assertAlmostEqual(sum(int(row[column]) for row in rows) / totals[metric], 1, places=4)
            top = self.execute("go", "tool", "pprof", "-top", f"-sample_index={metric}", output, code=0).stdout
            self.assertIn("flat%", top)
        peek = self.execute("go", "tool", "pprof", "-tags", output, code=0).stdout
        self.assertIn("order", peek)

    def heaptrack(self, path):
        text = self.execute("heaptrack_print", "-f", path, code=0)
        self.assertNotIn("failed to parse", text.stderr)
        self.assertNotIn("out of bounds", text.stderr)
        return text.stdout

    def test_heaptrack(self):
        for words, name in (((3000,), "a.zst"), ((100, 60, 1, "sample"), "b.gz"), ((100, 60, 1, "sample"), "b.txt")):
            path = self.make("a.tarn", *words)
            output = self.path(name)
            result = self.run_tarn("export", "--heaptrack", path, "-o", output)
            self.assertEqual("was derived" in result.stderr, len(words) > 1)
            if not shutil.which("heaptrack_print"):
                self.skipTest("heaptrack_print is not installed; apt-get install heaptrack")
            text = self.heaptrack(output)
            self.assertIn("order_server --port 8080", text)
            self.assertIn("json::parser::parse_value()", text)
            if len(words) > 1:
                self.check_sums(path, text)

    # A profile without events is exported with made-up ones, whose peak and leaks must be the profile's.
    def check_sums(self, path, text):
        totals = self.totals(path)
        units = {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9}
        for phrase, metric in (("peak heap memory consumption", "peak"), ("total memory leaked", "live_bytes")):
            number, unit = re.search(rf"{phrase}: ([\d.]+)([BKMG])", text).groups()
            self.assertLess(abs(float(number) * units[unit] / totals[metric] - 1), 0.05, phrase)

    def test_sqlite(self):
        path, hostile, output = self.make("a.tarn"), self.make("h.tarn", 1000, 40, 1, "full", "hostile"), self.path("a.sqlite")
        result = tarn("export", "--sqlite", path, "-o", output)
        if "libsqlite3" in result.stderr:
            self.assert_refused(result, 125, "libsqlite3")
            self.skipTest("libsqlite3 is not installed; apt-get install libsqlite3-0")
        self.assertEqual(result.stderr, "")
        # The folder in which the database is made is refused by name, and nothing is left there.
        refused = tarn("export", "--sqlite", path, "-o", output + "2", variables={"TMPDIR": "/nowhere"})
        self.assert_refused(refused, 125, "set TMPDIR to another one")
        scratch = self.path("scratch")
        os.mkdir(scratch)
        self.assertEqual(tarn("export", "--sqlite", path, "-o", output, variables={"TMPDIR": scratch}).returncode, 0)
        self.assertEqual(os.listdir(scratch), [])
        whole = json.loads(self.run_tarn("export", "--json", path).stdout)
        database = sqlite3.connect(output)
        self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        self.assertEqual(database.execute("PRAGMA user_version").fetchall(), [(1,)])
        totals = self.totals(path)
        for metric in METRICS:
            total, = database.execute("SELECT total FROM metrics WHERE name = ?", (metric,)).fetchone()
            summed, = database.execute(f"SELECT SUM({metric}) FROM sites").fetchone()
            self.assertAlmostEqual(total / totals[metric], 1)
            self.assertAlmostEqual(summed / totals[metric], 1)
        info = dict(database.execute("SELECT name, value FROM info"))
        self.assertEqual({name: info.get(name) for name in ("pid", "mode", "program")},
                         {name: whole["meta"].get(name) for name in ("pid", "mode", "program")})
        for number, site in enumerate(whole["sites"], 1):
            row = database.execute("SELECT type, allocations, bytes_at_peak, cost FROM sites WHERE id = ?", (number,)).fetchone()
            figures = site["figures"]
            self.assertEqual(row[0], site["type"])
            self.assertEqual(row[1], figures["allocations"])
            self.assertEqual(row[2], figures["bytes_at_peak"])
            self.assertAlmostEqual(row[3], site["cost_ns"]["total"], delta=1)
            found = database.execute(PATH, (number,)).fetchall()
            self.assertEqual(found, [(frame["function"], frame["file"], frame["line"]) for frame in site["frames"]])
            sizes = database.execute("SELECT size, count, exact FROM sizes WHERE site = ?", (number,)).fetchall()
            self.assertEqual(sizes, [(each["size"], each["count"], each["exact"]) for each in site["sizes"]])
        for table, rows in (("threads", whole["threads"]), ("counters", whole["counters"]), ("modules", whole["modules"]),
                            ("memory", whole["memory"]["over_time"]), ("memory_parts", whole["memory"]["parts"])):
            self.assertEqual(database.execute(f"SELECT COUNT(*) FROM {table}").fetchone(), (len(rows),), table)
        database.close()
        # Names are data, whatever they contain.
        self.run_tarn("export", "--sqlite", hostile, "-o", output)
        database = sqlite3.connect(output)
        names = {row[0] for row in database.execute("SELECT function FROM frames UNION SELECT type FROM sites")}
        known = json.loads(self.run_tarn("export", "--json", hostile).stdout)
        self.assertTrue({frame["function"] for site in known["sites"] for frame in site["frames"]} <= names)
        database.close()

    def test_standard_output(self):
        path = self.make("a.tarn")
        result = self.execute(settings.tarn, "export", "--pprof", path, code=0, text=False)
        self.assertEqual(result.stdout[:2], b"\x1f\x8b")
        self.assertTrue(self.run_tarn("export", "--heaptrack", path).stdout.startswith("v 10400 3\n"))

    def test_usage(self):
        path = self.make("a.tarn")
        self.assert_refused(tarn("export", path), 2, "no format given", "--pprof")
        self.assert_refused(tarn("export", "--pprof", "--heaptrack", path), 2, "more than one format")
        self.assert_refused(tarn("export", "--pprof", "--metric", "peak", path), 2, "requires --collapsed")
        self.assert_refused(tarn("export", "--collapsed", "--metric", "peaks", path), 2, "Did you mean 'peak'?")
        self.assert_refused(tarn("export", "--pprof", path, "-o", "/nowhere/at/all"), 125, "cannot be written")
        self.assert_refused(tarn("show", "--metric", "costt", path), 2, "Did you mean 'cost'?")
        self.assert_refused(tarn("show", "--by", "tree"), 2, "PROFILE is missing")


class profile_inputs(Profiles):
    def test_what_is_read_is_not_written_to(self):
        path = self.make("a.tarn")
        link = self.path("link")
        os.symlink(path, link)
        with open(path, "rb") as file:
            before = file.read()
        for words in (["export", "--json", path, "-o", path], ["export", "--sqlite", path, "-o", link], ["report", path, "-o", path],
                      ["advise", path, "--plan", link], ["merge", path, path, "-o", link]):
            self.assertIn("Give another file name.", self.run_tarn(*words, code=2).stderr, words)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), before, words)


class profile_damage(Profiles):
    def test_refused(self):
        empty = self.write("empty.tarn", "")
        text = self.write("text.tarn", "no profile\n")
        gone = self.path("gone.tarn")
        for command in (["show"], ["show", "--by", "tree"], ["diff", text], ["export", "--collapsed"]):
            self.assert_refused(tarn(*command, empty), 125, "is not a profile" if command[0] == "diff" else "is empty",
                                "tarn profile -- PROGRAM")
            self.assert_refused(tarn(*command, gone), 125, "tarn profile -- PROGRAM")
            self.assert_refused(tarn(*command, self.folder), 125)
        error = json.loads(tarn("export", "--json", empty).stderr)["error"]
        self.assertEqual(error["exit_code"], 125)

    def test_cut_off(self):
        path = self.make("a.tarn")
        with open(path, "rb") as file:
            whole = file.read()
        with open(path, "wb") as file:
            file.write(whole[:-200])
        result = self.run_tarn("show", path, code=4)
        self.assertIn("the file ends too early", result.stderr)
        self.assertIn("8 of 8 places: 28.8 s of 28.8 s", result.stdout)  # only names are lost

    def test_a_damaged_byte_among_the_events_is_told_by_every_command_that_reads_them(self):
        path = self.make("a.tarn", 300000)
        whole = self.run_tarn("export", "--heaptrack", path).stdout
        with open(path, "r+b") as file:
            middle = os.path.getsize(path) // 2
            file.seek(middle)
            byte = file.read(1)[0]
            file.seek(middle)
            file.write(bytes([byte ^ 0xff]))
        told = "a.tarn is damaged: a chunk of table 'events' is damaged after "
        result = self.run_tarn("export", "--heaptrack", path, code=4)
        self.assertIn(told, result.stderr)
        self.assertLess(len(result.stdout), len(whole))
        page = self.path("a.html")
        result = self.run_tarn("report", "--json", "-o", page, path, code=4)
        self.assertIn(told, result.stderr)
        self.assertIn("table 'events' is damaged", json.loads(result.stdout)["damage"])
        self.assertIn("table 'events' is damaged", self.read(page).replace("\\u0027", "'"))
        self.run_tarn("show", path)  # reads no events, and the rest is whole

    def test_help(self):
        for command in ("show", "diff", "export"):
            text = self.run_tarn(command, "--help").stdout
            self.assertIn(f"Usage: tarn {command}", text)
            self.assertIn("Exit codes", text)
            self.assertIn(f"  {command} ", self.run_tarn("help").stdout)
