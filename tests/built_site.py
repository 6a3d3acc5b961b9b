"""The built site for tests/site and tests/browser: what `make book` left, or a fresh build when that is out of date."""

from __future__ import annotations

import functools
from pathlib import Path

from filelock import FileLock

from tools import book
from tools.records import ROOT, documents

__all__ = ["addresses", "documents", "html"]

PAGES = ["index.md", "pages", "chapters", "labs", "assessments"]
SOURCES = [*PAGES, "_config.yml", "_toc.yml", "assets", "templates", "tools/site"]


def _changed(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return max((file.stat().st_mtime for file in files), default=0.0)


@functools.cache
def html() -> Path:
    """The folder with the pages. Fails when the build does: every warning of Sphinx is an error there."""
    folder = ROOT / "_build" / "html"
    built = folder / "searchindex.js"
    with FileLock(ROOT / "_build.lock"):  # of several processes one builds, and the others wait
        if not built.exists() or built.stat().st_mtime < max(_changed(ROOT / source) for source in SOURCES):
            assert book.build() == 0, "the site does not build cleanly: run `make book` and read its warnings"
    return folder


def addresses() -> list[str]:
    """Every page of the site, relative to its folder: the documents, and what the theme adds."""
    return [*(f"{name}.html" for name in documents()), "search.html", "genindex.html", "404.html"]
