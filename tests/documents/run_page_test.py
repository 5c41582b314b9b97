#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of run_page.py: that it finds what is wrong in a page."""

import unittest

import run_page


def page(*lines):
    return run_page.parse(list(lines))


def ran(text, printed, status=0, expected=()):
    return run_page.Command(text, 1, list(expected), 0, list(printed), status)


class Parsing(unittest.TestCase):
    def test_commands_and_their_output(self):
        _, commands, _ = page("text", "```console", "$ echo a \\", ">   b", "a b", "$ true", "```", "$ not a command")
        self.assertEqual([(c.text, c.line, c.expected) for c in commands],
                         [("echo a \\\n  b", 3, ["a b"]), ("true", 6, [])])

    def test_here_documents_belong_to_the_command(self):
        _, commands, _ = page("```console", "$ cat > x <<'END'", "line", "END", "$ true", "```")
        self.assertEqual(commands[0].text, "cat > x <<'END'\nline\nEND")

    def test_files(self):
        files, _, _ = page('```cpp title="a.cpp"', "int a;", "", "```")
        self.assertEqual(files, {"a.cpp": "int a;\n\n"})

    def test_blocks_that_are_left_out(self):
        _, commands, left_out = page("<!-- not run: it needs a cluster -->", "```console", "$ false", "```",
                                     "<!-- needs: no-such-program -->", "```console", "$ false", "```",
                                     "```console", "$ true", "```")
        self.assertEqual([c.text for c in commands], ["true"])
        self.assertEqual(len(left_out), 1)

    def test_a_comment_is_for_the_next_block_only(self):
        _, commands, _ = page("<!-- not run: no -->", "```console", "$ false", "```", "```console", "$ true", "```")
        self.assertEqual([c.text for c in commands], ["true"])

    def test_output_without_a_command(self):
        with self.assertRaises(run_page.PageError):
            page("```console", "output", "```")

    def test_hidden_checks(self):
        _, commands, _ = page("<!-- check: test -f x -->")
        self.assertEqual([(c.text, c.expected) for c in commands], [("test -f x", None)])


class Comparing(unittest.TestCase):
    def test_numbers_are_not_compared(self):
        for a, b in (("12 ms of 3 MiB", "7.5 us of 900 KiB"), ("cost 12 ms ±3 %", "cost  1.2 s"), ("1,234 x", "9 x")):
            self.assertTrue(run_page.same_line(a, b), (a, b))

    def test_words_are(self):
        self.assertFalse(run_page.same_line("3 blocks lost", "3 blocks reachable"))
        self.assertFalse(run_page.same_line("main", "main2"))

    def test_lines_of_the_machine_are_left_out(self):
        for line in ("tarn: round 2/4: 3 s left", "tarn: the price of a page fault was 1335 ns in one recording and 1042 ns in "
                     "another (another machine, or another load); 1335 ns is used for all"):
            self.assertTrue(run_page.PASSING.match(line), line)
        self.assertFalse(run_page.PASSING.match("tarn: the recording ended early: no space"))

    def test_ellipses(self):
        self.assertTrue(run_page.same_output(["a", "…", "z"], ["a", "b", "c", "z"]))
        self.assertTrue(run_page.same_output(["wrote … in 3 ms"], ["wrote x.prof in 9 s"]))
        self.assertFalse(run_page.same_output(["a", "…", "z"], ["a", "b"]))
        self.assertFalse(run_page.same_output([], ["surprise"]))
        self.assertFalse(run_page.same_output(["missing"], []))


class Judging(unittest.TestCase):
    def problems(self, *commands):
        return [what for _, what in run_page.problems_of(list(commands))]

    def test_failures_are_found(self):
        self.assertEqual(self.problems(ran("false", [], 1)), ["ended with status 1"])

    def test_unless_the_page_looks_at_the_status(self):
        self.assertEqual(self.problems(ran("false", [], 1), ran("echo $?", ["1"], 0, ["1"])), [])

    def test_other_output_is_found(self):
        self.assertEqual(self.problems(ran("x", ["b"], 0, ["a"])), ["printed something else"])

    def test_a_status_is_compared(self):
        self.assertEqual(self.problems(ran("echo $?", ["1"], 0, ["2"])), ["printed something else"])

    def test_any_output(self):
        self.assertEqual(self.problems(ran("x || test $? -eq 125", [], 0, ["…"])), [])

    def test_a_command_that_did_not_end(self):
        self.assertEqual(self.problems(ran("x", [], -1)), ["did not end"])


if __name__ == "__main__":
    unittest.main()
