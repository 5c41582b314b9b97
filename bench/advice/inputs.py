# SPDX-License-Identifier: MIT
"""What the programs of the advice benchmark read: files made from arithmetic alone, the same on every machine.

input_file(folder, name) makes the file `name` of the table below in `folder`, unless it is there, and returns its path.
"""
import os
import subprocess

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu")


def lines_of_words(count):
    for i in range(count):
        yield " ".join(f"{WORDS[(i * step + i // 7) % len(WORDS)]}{i * step % 9973}" for step in (3, 5, 7, 11, 13, 17))


def text(count):
    return "\n".join(lines_of_words(count)) + "\n"


def xml(count):
    rows = "".join(f'<row id="{i}" kind="{WORDS[i % 12]}"><name>{line[:40]}</name><value>{i * 7919 % 1009}</value></row>\n'
                   for i, line in enumerate(lines_of_words(count)))
    return f'<?xml version="1.0"?>\n<table>\n{rows}</table>\n'


STYLE_SHEET = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="kinds" match="row" use="@kind"/>
<xsl:template match="/table"><list><xsl:apply-templates select="row"><xsl:sort select="value" data-type="number"/></xsl:apply-templates>
</list></xsl:template>
<xsl:template match="row"><item n="{@id}"><xsl:value-of select="concat(name, ' ', value)"/></item></xsl:template>
</xsl:stylesheet>
"""


def svg(count):
    shapes = "".join(f'<path d="M{i * 37 % 800} {i * 53 % 600} q {i % 40} {i % 70} {i * 3 % 90} {i % 50} t 20 30" fill="none" '
                     f'stroke="#{i * 7919 % 4096:03x}"/>\n' for i in range(count))
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="600">\n{shapes}</svg>\n'


def graph(count):
    edges = "".join(f"  n{i} -> n{i * 7 % count};\n  n{i} -> n{(i + 1) % count};\n" for i in range(count))
    return f"digraph g {{\n{edges}}}\n"


def post_script(pages):
    page = "".join(f"{i * 37 % 500} {i * 53 % 700} moveto {i * 11 % 500} {i * 17 % 700} lineto stroke\n"
                   f"{i * 41 % 500} {i * 29 % 700} moveto (line {i}) show\n" for i in range(1500))
    return "%!PS\n/Times-Roman findfont 9 scalefont setfont\n" + (page + "showpage\n") * pages


CPP = """#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
std::map<std::string, std::vector<int>> table;
bool fits(const std::string& text) { return std::count(text.begin(), text.end(), 'a') == 1; }
int main() {
  std::unordered_map<int, std::set<std::string>> names;
  for (int i = 0; i < 10; ++i) names[i].insert(std::to_string(i));
  std::function<void(int)> add = [&](int i) { table[std::to_string(i)].push_back(i); };
  for (int i = 0; i < 10; ++i) add(i);
  return fits("abc1") ? 0 : 1;
}
"""

M4 = """define(`count', `ifelse($1, `0', `', `word$1 count(decr($1))')')dnl
define(`again', `ifelse($1, `0', `', `define(`name$1', count(60))name$1 again(decr($1))')')dnl
again(ROUNDS)
"""

CMAKE = """set(list "")
foreach(i RANGE 4000)
  string(SHA1 hash "item ${i}")
  list(APPEND list "${hash}")
endforeach()
foreach(turn RANGE 15)
  list(SORT list)
  string(REPLACE "a" "bb" text "${list}")
  string(REGEX REPLACE "([0-9])([a-f])" "\\\\2\\\\1" text "${text}")
  list(LENGTH list length)
endforeach()
message(STATUS "${length}")
"""

GNUPLOT = """set terminal svg
set output "/dev/null"
set samples 12000
plot for [i=1:5] sin(x * i) + cos(x / i) with lines title sprintf("line %d", i)
set isosamples 40
splot sin(x) * cos(y) with lines
"""


def history(commits):
    """A stream for git fast-import."""
    parts = []
    for i in range(commits):
        body = text(250 + i % 40).replace("alpha", f"a{i}")
        message = f"Change {i}\n"
        parts.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1600000000 + 60 * i} +0000\n"
                     f"data {len(message)}\n{message}\nM 100644 inline file{i % 20}.txt\ndata {len(body)}\n{body}\n")
    return "".join(parts)


TCL = """set d {}
for {set i 0} {$i < 600000} {incr i} { dict set d k[expr {$i % 20000}] [list $i a b] }
puts [dict size $d]
"""

TEXTS = {
    "dict.tcl": lambda: TCL,
    "words.txt": lambda: text(160000),
    "many-words.txt": lambda: text(700000),
    "few-words.txt": lambda: text(40000),
        "table.xml": lambda: xml(300000),
    "small-table.xml": lambda: xml(120000),
    "style.xsl": lambda: STYLE_SHEET,
    "paths.svg": lambda: svg(30000),
    "graph.dot": lambda: graph(110),
    "pages.ps": lambda: post_script(25),
    "program.cpp": lambda: CPP,
    "macros.m4": lambda: M4.replace("ROUNDS", "14000"),
    "strings.cmake": lambda: CMAKE,
    "plot.gp": lambda: GNUPLOT,
    "power.bc": lambda: "scale=0\nx = 3^60000 % 10007\nx\nfor (i = 0; i < 1000000; i++) { s = s + i * i % 7 }\ns\nquit\n",
}


def make_repository(path):
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input=history(1500), text=True, check=True)


def input_file(folder, name):
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    if name == "repository":
        make_repository(path)
        return path
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(TEXTS[name]())
    os.rename(path + ".new", path)
    return path
