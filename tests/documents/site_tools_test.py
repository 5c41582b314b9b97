#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of what builds the site: the filter that makes comments of public headers readable for Doxygen, the layout of code, and the
checks: requests to other hosts, pages found by symptom. The site itself is built by documents.site."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools/site"))

import build  # noqa: E402  (the path is set above)
import code_blocks  # noqa: E402
import doxygen_filter  # noqa: E402


def filtered(text):
    return doxygen_filter.filtered_cpp(text.split("\n"))


class Filter(unittest.TestCase):
    def test_the_first_comment_describes_the_file(self):
        self.assertEqual(filtered("// SPDX\n// x: what it is\n#pragma once"),
                         ["/// @file", "/// x: what it is", "#pragma once"])

    def test_comments_of_declarations(self):
        out = filtered("// SPDX\n// head\n\nnamespace a {\nclass b {\n public:\n  // What c does.\n  void c();\n  int d;  // of e\n};\n}")
        self.assertIn("  /// What c does.", out)
        self.assertIn("  int d;  ///< of e", out)

    def test_comments_in_functions_stay_plain(self):
        out = filtered("// SPDX\n// head\n\ntemplate <class T>\nint f(T t) {\n  // Inside.\n  int g;  // too\n}\n// After.\nint h();")
        self.assertIn("  // Inside.", out)
        self.assertIn("  int g;  // too", out)
        self.assertIn("/// After.", out)

    def test_dividers_stay_plain(self):
        self.assertIn("// ---- memory ----", filtered("// SPDX\n// head\n\n// ---- memory ----\n\nint f();"))

    def test_c(self):
        out = doxygen_filter.filtered_c(["/* SPDX", " * x.h: what */", "/* ---- part ---- */", "/* Does. */", "int f(void);",
                                         "struct s {", "  int a; /* of b */"])
        self.assertEqual(out, ["/** @file", " * x.h: what */", "/* ---- part ---- */", "/** Does. */", "int f(void);",
                               "struct s {", "  int a; /**< of b */"])


class Requests(unittest.TestCase):
    def found_in(self, html, style=""):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "index.html").write_text(html)
            Path(folder, "style.css").write_text(style)
            return list(build.requests_to_other_hosts(Path(folder)))

    def test_scripts_styles_and_pictures(self):
        for html in ('<script src="https://cdn.example/x.js"></script>', '<link rel="stylesheet" href="//fonts.example/f.css">',
                     '<img src="http://example/pixel.png">'):
            self.assertEqual(len(self.found_in(html)), 1, html)
        self.assertEqual(len(self.found_in("", "@font-face { src: url('https://fonts.example/f.woff2') }")), 1)

    def test_own_files_and_links_to_follow(self):
        self.assertEqual(self.found_in('<script src="assets/x.js"></script><a href="https://example/">a</a>'
                                       '<link rel="canonical" href="https://example/">', "a { src: url(../f.woff2) }"), [])


class Blocks(unittest.TestCase):
    def kind_of(self, *lines):
        block = '<div class="highlight"><pre><code>' + "\n".join(lines) + "\n</code></pre></div>"
        return "drawn" if "highlight drawn" in code_blocks.laid_out(block) else code_blocks.laid_out(block).count('class="line"')

    def test_lines_are_marked(self):
        self.assertEqual(self.kind_of("a", "", "  b"), 3)
        self.assertEqual(self.kind_of('<span id="__span-0-1">a', "</span>"), 0)

    def test_diagrams_and_wide_tables_scroll(self):
        self.assertEqual(self.kind_of("a &lt; b", "  │", "  c"), "drawn")
        self.assertEqual(self.kind_of(*["figure  " * 12] * 3), "drawn")
        self.assertEqual(self.kind_of(*["figure  " * 6] * 3), 3)
        self.assertEqual(self.kind_of(*["word " * 30] * 3), 3)


class Symptoms(unittest.TestCase):
    def test_all_words_must_be_on_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "search").mkdir()
            docs = [{"location": "a.html", "title": "A", "text": ""}, {"location": "a.html#b", "title": "Exit code", "text": "137"},
                    {"location": "c.html", "title": "OOMKilled", "text": ""}]
            Path(folder, "search/search_index.json").write_text(json.dumps({"docs": docs}))
            found = list(build.not_found_by_symptom(Path(folder), {"exit code 137": "a.html", "OOMKilled": "a.html"}))
        self.assertEqual(found, ["OOMKilled: a.html"])


if __name__ == "__main__":
    unittest.main()
