#!/usr/bin/env python3
"""The pages of the documentation, and their links: every one must lead to a file of the repository, and to a heading of it.

    pages.py           checks the links
    pages.py FOLDER    checks them, and copies the pages, with every file that they link to, to the folder, for MkDocs
"""
import html.parser
import pathlib
import shutil
import sys
import urllib.parse

import markdown

PATTERNS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "integrations/README.md", "integrations/*/README.md",
            "bench/results/**/*.md")


class Page(html.parser.HTMLParser):
    """links: what a page leads to; anchors: what leads into it."""

    def __init__(self, path):
        super().__init__()
        self.path, self.links, self.anchors = path, [], set()
        text = path.read_text(encoding="utf-8")
        self.feed(markdown.markdown(text, extensions=["tables", "fenced_code", "toc"]))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


def pages_of(root):
    return {path: Page(path) for pattern in PATTERNS for path in sorted(root.glob(pattern))}


def target_of(root, page, link):
    """(path, fragment) of a link into the repository; None: it leads elsewhere."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = page.path if not parts.path else (page.path.parent / urllib.parse.unquote(parts.path)).resolve()
    return path, urllib.parse.unquote(parts.fragment)


def defect(root, pages, path, fragment):
    """What is wrong with a link, and what was expected; None: it is right."""
    if not path.is_relative_to(root):
        return "leads out of the repository, expected a file of it"
    if path.is_dir():
        return "is a folder, expected a file: the site has no page for folders"
    if not path.is_file():
        return "is not there, expected a file"
    if fragment and path not in pages:
        return "has an anchor, expected none: it is no page"
    if fragment and fragment not in pages[path].anchors:
        return f"has no such heading, expected one of {', '.join(sorted(pages[path].anchors))}"
    return None


def checked(root):
    """The pages, the files that they link to, and a line for every link that is wrong."""
    pages, files, lines = pages_of(root), set(), []
    for page in pages.values():
        for link in page.links:
            target = target_of(root, page, link)
            if target is None:
                continue
            wrong = defect(root, pages, *target)
            if wrong:
                lines.append(f"{page.path.relative_to(root)}: link '{link}' {wrong}")
            else:
                files.add(target[0])
    return pages, files, lines


def copy(root, folder, paths):
    """Into a folder of the same shape, in which nothing is left of an earlier copy but what Doxygen wrote."""
    for old in folder.iterdir() if folder.is_dir() else ():
        if old.name != "reference":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    for path in paths:
        target = folder / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def main(words):
    root = pathlib.Path(__file__).resolve().parents[1]
    pages, files, lines = checked(root)
    for line in lines:
        print(line, file=sys.stderr)
    if not lines and words:
        copy(root, pathlib.Path(words[0]), set(pages) | files)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
