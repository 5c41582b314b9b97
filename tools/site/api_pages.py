#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages of the API: one for each public header, from what Doxygen reads in it (Doxyfile, doxygen_filter.py).

Usage: api_pages.py --check        are there warnings, or classes and functions without a description?
       api_pages.py --out FOLDER   writes the pages as Markdown

Exit status: 0; 1 something is wrong; 77 doxygen is missing."""

import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ROOT / "include/tarn"
PUBLIC = {"public-func", "public-static-func", "public-attrib", "public-static-attrib", "public-type", "user-defined",
          "friend", "func", "typedef", "enum", "var"}
# Base classes whose members are those of each class that is derived from them.
SHARED_BASES = {"pool_front", "pool_iteration"}


class ApiError(Exception):
    pass


def name_of(header):
    """As a program includes it, without tarn/."""
    return header.relative_to(HEADERS).as_posix()


def page_name(header):
    return re.sub(r"\.\w+$", ".md", name_of(header).replace("/", "-"))


@cache
def doxygen():
    """The roots of all XML files. Throws ApiError on a warning."""
    if not shutil.which("doxygen"):
        raise ApiError("doxygen is missing: install it (Debian's package doxygen) and run this again")
    with tempfile.TemporaryDirectory() as folder:
        settings = (ROOT / "tools/site/Doxyfile").read_text() + f"\nOUTPUT_DIRECTORY = {folder}\n"
        done = subprocess.run(["doxygen", "-"], input=settings, cwd=ROOT, text=True, capture_output=True)
        if done.returncode != 0 or done.stderr.strip():
            raise ApiError(f"doxygen found something wrong:\n{done.stderr.strip()}")
        return [xml.parse(path).getroot() for path in sorted(Path(folder, "xml").glob("*.xml")) if path.name != "index.xml"]


def plain(name):
    """A name or type without the namespaces that users do not write."""
    name = re.sub(r"\b(?:tarn::)?detail::|\btarn::", "", name)
    name = re.sub(r"<\s+", "<", re.sub(r"\s+>", ">", name))
    return re.sub(r" ([*&]+)(?=\w)", r"\1 ", re.sub(r" ([*&]+)(?=[,)>]|$)", r"\1", name)).strip()


def text_of(node):
    return "".join(node.itertext()) if node is not None else ""


def escaped(text):
    return re.sub(r"([\[\]])", r"\\\1", (text or "").replace("<", "&lt;"))


def inline(node):
    out = escaped(node.text)
    for child in node:
        if child.tag in ("computeroutput", "ref") and node.tag != "computeroutput":
            body = text_of(child)
            out += f"`{body}`" if child.tag == "computeroutput" else escaped(body)
        elif child.tag in ("bold", "emphasis"):
            out += f"**{inline(child)}**" if child.tag == "bold" else f"*{inline(child)}*"
        elif child.tag in ("verbatim", "programlisting", "preformatted"):
            out += "\n\n```cpp\n" + code_of(child) + "\n```\n\n"
        elif child.tag == "itemizedlist":
            items = [" ".join(inline(para).strip() for para in item) for item in child]
            out += "\n\n" + "\n".join(f"- {item}" for item in items) + "\n\n"
        elif child.tag == "linebreak":
            out += "\n\n"
        elif child.tag in ("ndash", "mdash"):
            out += "–"
        else:
            out += inline(child)
        out += escaped(child.tail)
    return out


def code_of(node):
    if node.tag != "programlisting":
        return text_of(node).strip("\n")
    return "\n".join("".join(" " if part.tag == "sp" else (part.text or "") + "".join(
        (" " if inner.tag == "sp" else text_of(inner)) + (inner.tail or "") for inner in part) + (part.tail or "")
        for part in line.iter("highlight")) for line in node.iter("codeline"))


def description_of(node):
    parts = []
    for name in ("briefdescription", "detaileddescription"):
        found = node.find(name)
        if found is not None:
            parts += [inline(para).strip() for para in found.iter("para") if not is_inside_para(found, para)]
    return "\n\n".join(part for part in parts if part)


def is_inside_para(root, para):
    return any(para is not other and para in list(other.iter("para")) for other in root.iter("para"))


def template_of(node):
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    words = []
    for each in parameters.findall("param"):
        kind = plain(text_of(each.find("type")))
        name = text_of(each.find("declname"))
        default = text_of(each.find("defval"))
        words.append(kind + (f" {name}" if name and not kind.endswith(name) else "") + (f" = {plain(default)}" if default else ""))
    return f"template <{', '.join(words)}>\n"


def signature_of(member):
    kind = member.get("kind")
    if kind == "enum":
        values = ", ".join(text_of(value.find("name")) for value in member.findall("enumvalue"))
        return f"enum class {text_of(member.find('name'))} {{ {values} }};"
    words = plain(text_of(member.find("type")))
    name = text_of(member.find("name"))
    arguments = plain(text_of(member.find("argsstring")))
    if kind == "typedef" and words:
        definition = text_of(member.find("definition"))
        if definition.startswith("using"):
            return template_of(member) + f"using {name} = {plain(definition.partition('=')[2])};"
        return f"typedef {words} {name}{arguments};"
    static = "static " if member.get("static") == "yes" and kind == "function" else ""
    initial = " ".join(text_of(member.find("initializer")).split()) if kind == "variable" else ""
    return template_of(member) + f"{static}{words} {name}{arguments}{' ' + initial if initial else ''};".strip()


def line_of(node):
    place = node.find("location")
    return int(place.get("line")) if place is not None else 0


def header_of(node):
    place = node.find("location")
    return place.get("file").rpartition("tarn/")[2] if place is not None else ""


def is_public(member):
    name = text_of(member.find("name"))
    arguments = text_of(member.find("argsstring"))
    return (member.get("prot") == "public" and not re.search(r"=\s*delete", arguments)
            and not re.match(r"TARN_|~?$", name) and not (member.get("kind") == "friend" and "operator" not in name)
            and member.get("kind") in ("function", "typedef", "enum", "variable", "friend"))


def members_of(compound):
    return sorted((member for section in compound.findall("sectiondef") if section.get("kind") in PUBLIC
                   for member in section.findall("memberdef") if is_public(member)), key=line_of)


class Api:
    def __init__(self):
        self.headers = sorted(path for path in HEADERS.rglob("*.h*") if "detail" not in path.relative_to(HEADERS).parts)
        self.files, self.classes, self.free = {}, [], {}
        for root in doxygen():
            for compound in root.findall("compounddef"):
                name = text_of(compound.find("compoundname"))
                kind = compound.get("kind")
                if kind == "file":
                    self.files[header_of(compound)] = compound
                elif kind in ("class", "struct") and compound.get("prot", "public") == "public":
                    self.classes.append((name, compound))
                if kind in ("file", "namespace") and "detail" not in name:
                    for member in members_of(compound):
                        if "detail::" not in text_of(member.find("definition")):
                            self.free[member.get("id")] = member

    def documented(self, header):
        """The classes and free members of a header, in its order: (node, name of the class or None)."""
        found = [(compound, name) for name, compound in self.classes
                 if header_of(compound) == name_of(header) and "detail" not in name.split("::")]
        found += [(member, None) for member in self.free.values() if header_of(member) == name_of(header)]
        return sorted(found, key=lambda each: line_of(each[0]))

    def shared_members(self, compound):
        for base in compound.findall("basecompoundref"):
            for name, other in self.classes:
                if name.split("::")[-1] in SHARED_BASES and name.split("::")[-1] in text_of(base):
                    yield from members_of(other)

    def page(self, header):
        described = description_of(self.files[name_of(header)])
        out = [f"# tarn/{name_of(header)}", described, f"```cpp\n#include <tarn/{name_of(header)}>\n```"]
        documented = self.documented(header)
        free = self.groups(header, [node for node, name in documented if name is None])
        for node, name in documented:
            if name is None:
                out += [group_text(group, "##") for group in free if group[0] is node]
                continue
            kind = node.get("kind")
            out.append(f"## {kind} {plain(name)}")
            if template_of(node):
                out.append(f"```cpp\n{template_of(node)}{kind} {plain(name).split('::')[-1]};\n```")
            out.append(description_of(node))
            members = members_of(node)
            fields = [each for each in members if each.get("kind") == "variable"]
            if fields:
                out.append("\n".join(f"- `{signature_of(each)}` " + " ".join(description_of(each).split()) for each in fields))
            out += [group_text(group, "###") for group in self.groups(header, [each for each in members if each not in fields])]
            shared = list(self.shared_members(node))
            if shared:
                out.append("### Members that all pools have")
                out += [group_text(group, "####") for group in self.groups(HEADERS / header_of(shared[0]), shared)]
        return "\n\n".join(part for part in out if part) + "\n"

    def groups(self, header, members):
        """Members that share the comment above the first of them."""
        found = []
        for member in members:
            if found and not description_of(member) and self.has_comment_above_group(header, line_of(member)):
                found[-1].append(member)
            else:
                found.append([member])
        return found

    def without_description(self):
        for header in self.headers:
            if not description_of(self.files[name_of(header)]):
                yield f"include/tarn/{name_of(header)}:1: no comment describes the header"
            for node, name in self.documented(header):
                what = (plain(name) if name else text_of(node.find("name"))).partition("<")[0].strip()
                if not self.is_described(header, node, what):
                    yield f"include/tarn/{name_of(header)}:{line_of(node)}: {what} has no comment"

    def is_described(self, header, node, what):
        """By its own comment, by that of the header, which names it, or field by field. Of functions that stand together,
        the comment above the first describes all. Other names of types, tags, operators and types without a name need none."""
        name = what.split("::")[-1]
        if description_of(node) or node.get("kind") == "typedef" or name.startswith(("operator", "@")):
            return True
        if node.get("kind") in ("class", "struct") and not members_of(node) and not node.findall("basecompoundref"):
            return True
        if re.search(rf"\b{re.escape(name)}\b", description_of(self.files[name_of(header)])):
            return True
        if self.has_comment_above_group(header, line_of(node)):
            return True
        fields = [member for member in members_of(node) if member.get("kind") == "variable"]
        described = sum(1 for field in fields if description_of(field))
        return bool(fields) and 2 * described >= len(fields)

    @staticmethod
    def has_comment_above_group(header, line):
        lines = header.read_text().split("\n")
        for text in reversed(lines[:line - 1]):
            if not text.strip():
                return False
            if re.match(r"\s*(//|/?\*)", text):
                return True
        return False


def group_text(members, heading):
    names = ", ".join(dict.fromkeys(text_of(member.find("name")) for member in members)).replace("<", "&lt;")
    described = description_of(members[0])
    values = "\n".join(f"- `{text_of(value.find('name'))}` " + " ".join(description_of(value).split())
                       for value in members[0].findall("enumvalue"))
    signatures = "\n".join(map(signature_of, members))
    return "\n\n".join(part for part in (f"{heading} {names}", f"```cpp\n{signatures}\n```", described, values) if part)


def pages():
    api = Api()
    written = {page_name(header): api.page(header) for header in api.headers}
    rows = "\n".join(f"- [tarn/{name_of(header)}]({page_name(header)}): {summary_of(api, header)}" for header in api.headers)
    written["index.md"] = ("# API\n\nOne page for each public header, made from its comments. Which of them to take: "
                           f"[Which pool?](../../how-to/which-pool.md)\n\n{rows}\n")
    return written


def summary_of(api, header):
    paragraph = description_of(api.files[name_of(header)]).partition("\n\n")[0]
    first = re.split(r"(?<=[a-z\)])\.(?:\s|$)", " ".join(paragraph.split()), maxsplit=1)[0]
    return first.partition(": ")[2] or first


def main():
    try:
        if "--out" in sys.argv:
            folder = Path(sys.argv[sys.argv.index("--out") + 1])
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in pages().items():
                (folder / name).write_text(text)
            return 0
        problems = list(Api().without_description())
        print("\n".join(problems) if problems else f"{len(pages())} pages of the API, without a warning")
        return 1 if problems else 0
    except ApiError as error:
        print(error)
        return 77 if "is missing" in str(error) else 1


if __name__ == "__main__":
    sys.exit(main())
