#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Doxygen's input filter: turns the plain comments of a public header into ones that Doxygen reads. The first comment of
the file describes the file; a comment above a declaration describes it; a comment behind a member describes the member.
Comments in bodies of functions, and lines that only divide (// ---- memory ----), stay plain.

Usage: doxygen_filter.py HEADER"""

import re
import sys

TYPE = re.compile(r"\b(namespace|class|struct|union|enum|extern \"C\")\b")
# Lines that begin a paragraph of their own in the comment of a header.
PARAGRAPH = re.compile(r"^(\s*/// )((?:Thread safety|Failure|Cost|Memory|Units|Lifetime|Destructors|Requires)\b[^:.]*:)")
DIVIDER = re.compile(r"^\s*(?://|/\*) ?-{3,}")


class Scopes:
    """Whether the place after each line is one of declarations (a namespace, a class) or the body of a function."""

    def __init__(self):
        self.open, self.statement = [], ""

    def declares(self):
        return all(self.open)

    def take(self, code):
        code = re.sub(r"\bTARN_[A-Z]+_(?:BEGIN|END)\b", "", code)  # stand for nothing, or open a namespace inside another
        for char in re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', '""', code):
            if char == "{":
                head = re.sub(r"template\s*<[^{};]*>(?=\s*(?:class|struct|union|inline|requires|using|\w))", "", self.statement)
                declares = TYPE.search(head) and "(" not in head or re.match(r'\s*extern ""\s*$', head)
                self.open.append("enum" if declares and re.search(r"\benum\b", head) else bool(declares))
                self.statement = ""
            elif char == "}":
                if self.open:
                    self.open.pop()
                self.statement = ""
            elif char == ";" or (char == "," and self.open and self.open[-1] == "enum"):
                self.statement = ""
            elif char == ":" and self.statement.strip() in ("public", "protected", "private"):
                self.statement = ""
            else:
                self.statement += char


def filtered_cpp(lines):
    scopes, first, out = Scopes(), True, []
    number = 0
    while number < len(lines):
        line = lines[number]
        if re.match(r"^\s*//", line):
            block = []
            while number < len(lines) and re.match(r"^\s*//", lines[number]):
                block.append(lines[number])
                number += 1
            if first and "SPDX" in block[0]:
                out.append("/// @file")  # in its place, so that line numbers stay right
                block.pop(0)
            if not scopes.declares() or (scopes.statement.strip() and not first):
                out += block
                continue
            marked = [each if DIVIDER.match(each) else re.sub(r"//", "///", each, count=1) for each in block]
            out += [PARAGRAPH.sub(r"\1<br>\2", each) for each in marked]
            first = False
            continue
        code, mark, comment = line.partition("// ")
        if mark and scopes.declares() and re.search(r"[;,]\s*$|[\w)]\s*$", code) and not code.lstrip().startswith("#"):
            line = f"{code}///< {comment}"
        if not line.lstrip().startswith("#"):
            scopes.take(code if mark else line)
        out.append(line)
        number += 1
    return out


def filtered_c(lines):
    """The C header: /* … */ above a declaration, or behind a member."""
    text = "\n".join(lines)
    text = re.sub(r"\A/\* SPDX[^\n]*\n", "/** @file\n", text)
    text = re.sub(r"^(\s*)/\* (?!-)", r"\1/** ", text, flags=re.M)
    text = re.sub(r"(;[ \t]*)/\* ", r"\1/**< ", text)
    return text.split("\n")


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as header:
        # Nested inline namespaces are how the ABI is named; users do not write them.
        text = re.sub(r"^namespace tarn::inline \w+", "namespace tarn", header.read(), flags=re.M)
    # Doxygen cannot read specialisations of templates of namespaces that it has not seen.
    lines = re.sub(r"^(struct|class) (?:\w+::)+(?=\w+<)", r"\1 ", text, flags=re.M).split("\n")
    print("\n".join(filtered_c(lines) if path.endswith(".h") else filtered_cpp(lines)))


if __name__ == "__main__":
    main()
