# SPDX-License-Identifier: MIT
"""Marks the blocks of code of a page for docs/assets/site.css, so that no line is cut at the right: a line that is too long
continues indented, for which each line is an element; diagrams, and tables wider than a terminal, scroll instead."""

import html
import re

BLOCK = re.compile(r'(<div class="[^"]*highlight)"(>(?:(?!</div>).)*?<code>)(.*?)(</code>)', re.S)


def is_drawn(code):
    """Whether the lines mean something only one below the other."""
    lines = html.unescape(re.sub(r"<[^>]*>", "", code)).split("\n")
    rows = [line for line in lines if len(line) > 80 and len(re.findall(r"\S {2,}(?=\S)", line)) >= 4]
    return len(rows) >= 3 or any(set(line) & set("│─►◄") for line in lines)


def marked(block):
    kind, begin, code, end = block.groups()
    if is_drawn(code):
        kind += " drawn"
    elif "__span" not in code:  # an indented block: pygments has not marked its lines
        code = "".join(f'<span class="line">{line}\n</span>' for line in code.rstrip("\n").split("\n"))
    return f'{kind}"{begin}{code}{end}'


def laid_out(content):
    return BLOCK.sub(marked, content)
