#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the documents as a site, and checks it: links and anchors, that no page asks another host for anything, and that the
search knows the pages that answer a symptom.

Usage: build.py [--out FOLDER] [--skip-without-packages]

The packages of requirements.txt are installed into build/site/packages unless they are there. Exit status: 0; 1 something
is wrong; 2 a program is missing or the packages cannot be had (with --skip-without-packages: 77)."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = ROOT / "tools/site/requirements.txt"
PACKAGES = ROOT / "build/site/packages"
# What makes a browser fetch something without being asked.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "audio": "src", "video": "src", "link": "href"}
# What users see, and a page that must be found by it.
SYMPTOMS = {"OOMKilled": "tutorials/killed-container.html", "exit code 137": "tutorials/killed-container.html",
            "Kubernetes": "how-to/containers.html", "memory leak": "tutorials/find-a-leak.html",
            "fragmentation": "tutorials/who-pins-memory.html", "RSS grows": "how-to/troubleshooting.html",
            "slow allocations": "how-to/troubleshooting.html", "page faults": "explanation/cost.html",
            "lock contention": "how-to/troubleshooting.html", "double free": "how-to/troubleshooting.html"}
KEEP = {"canonical", "next", "prev"}  # kinds of <link> that fetch nothing


class CannotBuild(Exception):
    pass


def python_with_packages():
    """A python that has the packages; they are installed anew when the list has changed."""
    stamp = PACKAGES / hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    python = PACKAGES / "bin/python"
    if stamp.exists():
        return python
    shutil.rmtree(PACKAGES, ignore_errors=True)
    print("Installing MkDocs (tools/site/requirements.txt) into build/site/packages", flush=True)
    try:
        venv.create(PACKAGES, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotBuild(f"python3 cannot make a virtual environment (Debian: python3-venv): {error}") from error
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotBuild("pip cannot install tools/site/requirements.txt; a network with PyPI is needed once:\n"
                          + done.stderr.strip()[-1000:])
    stamp.touch()
    return python


class Fetches(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        address = values.get(FETCHED.get(tag, ""), "") or ""
        if re.match(r"(?:[a-z]+:)?//", address) and values.get("rel") not in KEEP:
            self.found.append(f"<{tag}> {address}")


def requests_to_other_hosts(folder):
    for page in sorted(folder.rglob("*.html")):
        parser = Fetches()
        parser.feed(page.read_text(encoding="utf-8"))
        for found in parser.found:
            yield f"{page.relative_to(folder)}: {found}"
    for style in sorted(folder.rglob("*.css")):
        for address in re.findall(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)", style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(folder)}: {address}"


def not_found_by_symptom(folder, symptoms):
    """The symptoms whose page the index of the search does not have with all of the words."""
    entries = json.loads((folder / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    for symptom, page in symptoms.items():
        text = " ".join(f"{each['title']} {each['text']}" for each in entries if each["location"].split("#")[0] == page).lower()
        if not all(word in text for word in symptom.lower().split()):
            yield f"{symptom}: {page}"


def main():
    words = sys.argv[1:]
    out = Path(words[words.index("--out") + 1]) if "--out" in words else ROOT / "build/site/html"
    try:
        if not shutil.which("doxygen"):
            raise CannotBuild("doxygen is missing: install it (Debian's package doxygen) and run this again")
        python = python_with_packages()
    except CannotBuild as error:
        skip = "--skip-without-packages" in words
        print(f"{'skipped: ' if skip else ''}{error}", file=sys.stdout if skip else sys.stderr)
        return 77 if skip else 2
    done = subprocess.run([python, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", out.resolve()], cwd=ROOT,
                          env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith(("WARNING", "ERROR", "Aborted", "Error", " "))
                        and not line.startswith("  - repository/")))
        return 1
    problems = list(requests_to_other_hosts(out))
    if problems:
        print("The site would ask other hosts for these:\n" + "\n".join(problems))
        return 1
    problems = list(not_found_by_symptom(out, SYMPTOMS))
    if problems:
        print("The search does not find these pages by these words:\n" + "\n".join(problems))
        return 1
    pages = len(list(out.rglob("*.html")))
    print(f"{pages} pages in {out}, open index.html there; all links and anchors hold, no other host is asked for anything, "
          "and the search finds by symptom")
    return 0


if __name__ == "__main__":
    sys.exit(main())
