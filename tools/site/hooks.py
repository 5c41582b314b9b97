# SPDX-License-Identifier: MIT
"""What MkDocs does beyond its configuration, when it builds the site of mkdocs.yml:

- The pages of reference/api/ are made from the public headers.
- A link to a file outside of docs/ (a header, an example, SECURITY.md) leads to a page that shows the file. Markdown is
  shown as it is; of a public header the page of the API; all others as a block of code.
- A mention such as `docs/reference/options.md` or docs/design/0011 in running text becomes a link.
- Long lines of code are wrapped, diagrams scroll (code_blocks.py).
- The start page has the whole width, and each page a weight in the search (BOOST).
"""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent))
import api_pages  # noqa: E402  (the path is set above)
import code_blocks  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
MENTION = re.compile(r"`?(?<![\w/(\[])docs/((?:how-to|reference|explanation|tutorials)/[\w-]+\.md|design/(\d{4})[\w-]*(?:\.md)?)`?(?![\w\]])")
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".sh": "bash", ".yml": "yaml",
             ".json": "json", ".txt": "text", ".cmake": "cmake"}
# What the search shows first: pages for who has a problem, then those that explain; decisions, sources and the API last.
BOOST = {"tutorials/": 4, "how-to/": 2, "explanation/": 0.5, "design/": 0.2, "repository/": 0.2, "reference/api/": 0.2}
shown = {}  # page of the site -> file of the repository that it shows


def page_of(path):
    """The page that shows a file or folder outside of docs/."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix in {".hpp", ".h"} and path.is_relative_to(api_pages.HEADERS) and "detail" not in path.parts:
        return f"reference/api/{api_pages.page_name(path)}"
    if path.is_dir() and (path / "README.md").is_file():
        return page_of(path / "README.md")
    return f"repository/{name}" if path.suffix == ".md" else f"repository/{name}.md"


def targets_of(text, source):
    """Of each link of the text of the file `source`: the file that it names, if that is outside of docs/."""
    for match in LINK.finditer(text):
        target = (source.parent / match[2]).resolve()
        if target.exists() and target.is_relative_to(ROOT) and not target.is_relative_to(ROOT / "docs"):
            yield target


def content_of(path):
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    if path.is_dir():
        files = "\n".join(f"    {each.name}{'/' if each.is_dir() else ''}" for each in sorted(path.iterdir()))
        return f"# {name}/\n\n{files}\n"
    return f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}````\n"


def on_files(files, config):
    for name, text in api_pages.pages().items():
        files.append(File.generated(config, f"reference/api/{name}", content=text))
    # Linked files, and what these link to in turn.
    shown.clear()
    open_files = [(ROOT / "docs" / each.src_uri, (ROOT / "docs" / each.src_uri).read_text(encoding="utf-8"))
                  for each in files.documentation_pages() if (ROOT / "docs" / each.src_uri).is_file()]
    while open_files:
        source, text = open_files.pop()
        for target in targets_of(text, source):
            page = page_of(target)
            if page.startswith("reference/api/") or page in shown:
                continue
            if target.is_dir() and (target / "README.md").is_file():
                target = target / "README.md"
            shown[page] = target
            files.append(File.generated(config, page, content=content_of(target)))
            if target.suffix == ".md":
                open_files.append((target, target.read_text(encoding="utf-8")))
    return files


def relink(text, source, page):
    """The links of the text of the file `source` as they must be on the page `page` of the site."""
    here = posixpath.dirname(page)

    def replaced(match):
        target = (source.parent / match[2]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]
        if target.is_relative_to(ROOT / "docs"):
            uri = target.relative_to(ROOT / "docs").as_posix()
            if target.is_dir():
                uri = posixpath.normpath(posixpath.join(uri, "index.md"))
        else:
            uri = page_of(target)
        return match[1] + posixpath.relpath(uri, here or ".") + match[3]

    def mentioned(match):
        if match[2]:
            found = sorted((ROOT / "docs/design").glob(f"{match[2]}-*.md"))
        else:
            found = [ROOT / "docs" / match[1]]
        if not found or not found[0].is_file():
            return match[0]
        uri = found[0].relative_to(ROOT / "docs").as_posix()
        label = f"design/{match[2]}" if match[2] else match[1].removesuffix(".md")
        return f"[{label}]({posixpath.relpath(uri, here or '.')})"

    out, fenced = [], None
    for line in text.split("\n"):
        fence = re.match(r"^ *(```+)", line)
        if fence and fenced in (None, fence[1]):
            fenced = None if fenced else fence[1]
        elif not fenced and re.match(r"^<!--.*-->$", line):
            line = ""  # or else a table or list that follows at once would not be one
        elif not fenced and not line.startswith("    ") and not line.startswith("#"):
            line = MENTION.sub(mentioned, LINK.sub(replaced, line))
        out.append(line)
    return "\n".join(out)


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    if uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    page.meta["search"] = {"boost": next((boost for folder, boost in BOOST.items() if uri.startswith(folder)), 1)}
    source = shown.get(uri, ROOT / "docs" / uri)
    return relink(markdown, source, uri) if source.suffix == ".md" else markdown


def on_page_content(content, page, config, files):
    return code_blocks.laid_out(content)


def on_post_build(config):
    """The theme's plugin for search without a server names its one script by an address on another host."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        own = posixpath.relpath("assets/iframe-worker.js", page.parent.relative_to(site).as_posix())
        page.write_text(re.sub(r"https://[^\"]*/iframe-worker/shim", own, text), encoding="utf-8")
