# SPDX-License-Identifier: MIT
"""Inputs of the real programs. All are generated, and the same on every machine: no clock, no random seed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

TRANSLATION_UNIT_HEAD = """// Generated: a heavy translation unit of standard headers and template instances.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct tag {
  int value = N;
  bool operator<(const tag& other) const { return value < other.value; }
};
template <int N> struct record {
  std::map<std::string, std::vector<tag<N>>> index;
  std::unordered_map<int, std::variant<int, std::string, tag<N>>> fields;
  std::function<int(tag<N>)> visit = [](tag<N> item) { return item.value; };
  int sum() const {
    int total = 0;
    for (const auto& [name, tags] : index) {
      total += std::accumulate(tags.begin(), tags.end(), 0, [](int s, tag<N> t) { return s + t.value; });
    }
    return total;
  }
};
"""

PYTHON_PROGRAM = """# Generated: objects, dictionaries, lists, strings and JSON, as scripts use them.
import json

class node:
    def __init__(self, key, children):
        self.key, self.children = key, children

def tree(depth, key):
    return node(key, [tree(depth - 1, key * 3 + i) for i in range(3)] if depth else [])

def count(root):
    return 1 + sum(count(child) for child in root.children)

total = 0
for round_ in range(4):
    records = [{"id": i, "name": "record-%d" % i, "tags": ["t%d" % (i * k % 97) for k in range(6)],
                "position": {"x": i * 0.5, "y": -i * 0.25}} for i in range(8000)]
    text = json.dumps(records, sort_keys=True)
    again = json.loads(text)
    total += len(text) + sum(item["id"] for item in again)
    groups = {}
    for item in again:
        for name in item["tags"]:
            groups.setdefault(name, []).append(item["name"].upper() + name)
    total += sum(len(",".join(sorted(names))) for names in groups.values())
    total += count(tree(8, 1))
print(total)
"""

SQL_SCRIPT = """-- Generated: inserts, indexes, joins, updates and deletes in memory.
PRAGMA cache_size = -65536;
CREATE TABLE item(id INTEGER PRIMARY KEY, owner INTEGER, name TEXT, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO item SELECT i, i * 7919 % 4001, 'item-' || (i * 104729 % 1000003), i * 0.37 FROM n;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_owner ON item(owner);
CREATE TABLE owner(id INTEGER PRIMARY KEY, label TEXT);
INSERT INTO owner SELECT DISTINCT owner, 'owner ' || owner FROM item;
SELECT label, count(*), round(sum(price), 2), max(name) FROM item JOIN owner ON owner.id = item.owner
  GROUP BY label ORDER BY 3 DESC LIMIT 10;
UPDATE item SET name = name || '-' || owner WHERE id % 5 = 0;
DELETE FROM item WHERE id % 7 = 3;
SELECT count(*), count(DISTINCT substr(name, 1, 8)), length(group_concat(name)) FROM item;
"""

LUA_PROGRAM = """-- Generated: tables, closures and strings.
local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1) }
end
local function check(node) return node[1] and 1 + check(node[1]) + check(node[2]) or 1 end
local total = 0
local kept = tree(15)
for round = 1, 40 do total = total + check(tree(13)) end
local words = {}
for i = 1, 200000 do
  local key = "word-" .. (i * 7919 % 60013)
  words[key] = (words[key] or "") .. string.char(97 + i % 26)
end
local parts = {}
for key, value in pairs(words) do parts[#parts + 1] = key .. "=" .. value:upper() end
table.sort(parts)
print(total + check(kept), #table.concat(parts, ";"))
"""

POSTSCRIPT_PAGE = """/Times-Roman findfont 9 scalefont setfont
0 1 70 { /row exch def
  36 row 10 mul 40 add moveto
  (Page PAGE, line ) show row 8 string cvs show
  ( - the quick brown fox jumps over the lazy dog, again and again.) show
} for
0 6 359 { /angle exch def gsave 300 400 translate angle rotate
  angle 360 div 1 0.8 sethsbcolor 0 0 moveto 200 40 180 90 120 PAGE 7 mod 20 mul curveto
  angle 60 mod 10 div 0.2 add setlinewidth stroke grestore } for
0 1 40 { /step exch def gsave 420 90 translate step 9 mul rotate
  newpath 0 0 step 2 mul 4 add 0 300 arc closepath 0.2 setgray fill grestore } for
showpage
"""


def write(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text)


def write_translation_unit(path: Path, instances: int = 12) -> None:
    body = "".join(f"template struct record<{number}>;\n" for number in range(instances))
    path.write_text(TRANSLATION_UNIT_HEAD + body)


def write_postscript(path: Path, pages: int = 6) -> None:
    body = "".join(POSTSCRIPT_PAGE.replace("PAGE", str(number + 1)) for number in range(pages))
    path.write_text(f"%!PS-Adobe-3.0\n%%Pages: {pages}\n{body}%%EOF\n")


def file_lines(file_number: int, revision: int, lines: int) -> bytes:
    """A source-like file in which each revision changes about one line in thirty."""
    out = []
    for line in range(lines):
        changed = max((r for r in range(revision + 1) if (line * 31 + r * 17 + file_number * 7) % 29 == 0), default=0)
        out.append(f"static int value_{file_number}_{line} = {changed * 1000 + line}; // generated line {line}\n")
    return "".join(out).encode()


def fast_import_stream(commits: int = 1000, files: int = 12, lines: int = 250) -> bytes:
    """A history for git fast-import: every commit rewrites three files; dates and names are fixed."""
    parts = []
    for commit in range(commits):
        message = f"Change number {commit}\n\nThree files get new values.\n".encode()
        parts.append(
            b"commit refs/heads/main\n"
            b"committer Bench <bench@example.org> %d +0000\ndata %d\n%s"
            % (1_600_000_000 + commit * 3600, len(message), message)
        )
        for change in range(3):
            number = (commit * 3 + change * 5) % files
            content = file_lines(number, commit % 40, lines)
            parts.append(b"M 100644 inline src/file_%d.c\ndata %d\n%s\n" % (number, len(content), content))
    return b"".join(parts) + b"done\n"


def make_history(path: Path) -> None:
    """A bare repository with that history."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(path)], check=True)
    command = ["git", "-C", str(path), "fast-import", "--quiet", "--done"]
    subprocess.run(command, check=True, input=fast_import_stream())
