"""What a page of the built site weighs: ``python -m tools.page_weight`` lists it.

Text counts as gzip sends it, pictures as they are. ``own`` is what the content adds to the frame of the theme: the page
less the same page with an empty article, and all its pictures. ``files`` is everything a browser asks for when it reads
the page to its end, apart from fonts, which depend on the letters of the formulas.
"""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
HTML = ROOT / "_build" / "html"
TEXT = (".html", ".css", ".js", ".svg", ".json", ".txt")
EXPLORERS = ("attention", "flow", "cross", "rank", "collapse", "cost", "memory", "phase", "pruning")
LIMIT, LIMIT_EXPLORER = 150_000, 500_000  # bytes of ``own``
WEIGHED = ("chapters/", "labs/", "assessments/")
ARTICLE = re.compile(r'(<article class="bd-article".*?>).*(</article>)', re.DOTALL)
ASKED = re.compile(
    r'<script[^>]*\bsrc="([^"]+)"|<link(?=[^>]*\brel="(?:stylesheet|icon|preload)")[^>]*\bhref="([^"]+)"'
    r'|<img[^>]*\bsrc="([^"]+)"'
)


def compressed(content: bytes) -> int:
    return len(gzip.compress(content, 6, mtime=0))


def sent(path: Path) -> int:
    """Bytes of a file on the way to a reader, without headers."""
    return compressed(path.read_bytes()) if path.suffix in TEXT else path.stat().st_size


def files(page: Path) -> set[Path]:
    """The page and the local files it asks for, those of its style sheets too."""
    found = {page.resolve()}
    html = re.sub(r"<noscript>.*?</noscript>", "", page.read_text("utf8"), flags=re.DOTALL)
    for address in ("".join(groups) for groups in ASKED.findall(html)):
        if not urlsplit(address).scheme:
            found.add((page.parent / urlsplit(address).path).resolve())
    sheets = [path for path in found if path.suffix == ".css"]
    while sheets:
        sheet = sheets.pop()
        for address in re.findall(r'@import\s+(?:url\()?["\']?([^"\')]+)', sheet.read_text("utf8")):
            imported = (sheet.parent / urlsplit(address).path).resolve()
            sheets += [imported] if imported not in found else []
            found.add(imported)
    return found


def own(page: Path) -> int:
    """Bytes that the content of a page adds to the theme's frame, MathJax left out."""
    html = page.read_text("utf8")
    frame, articles = ARTICLE.subn(r"\1\2", html)
    if articles != 1:
        raise ValueError(f"{page} has {articles} articles, expected one: is it a page of the book?")
    text = compressed(html.encode()) - compressed(frame.encode())
    return text + sum(path.stat().st_size for path in files(page) if path.parent.name == "_images")


def limit(page: Path) -> int:
    """What ``own`` may be: more where the page has an explorer of maps."""
    return LIMIT_EXPLORER if re.search(rf"<({'|'.join(EXPLORERS)})-explorer\b", page.read_text("utf8")) else LIMIT


def weighed(html: Path = HTML) -> list[Path]:
    """The pages with a limit: chapters, labs, assessments."""
    return sorted(path for folder in WEIGHED for path in (html / folder).glob("*.html"))


def main() -> int:
    heavy = 0
    for page in weighed():
        mine, most = own(page), limit(page)
        heavy += mine > most
        every = sum(map(sent, files(page)))
        name = page.relative_to(HTML).as_posix()
        print(f"{name:45} own {mine / 1e3:4.0f} of {most / 1e3:.0f} kB, with all it asks for {every / 1e3:4.0f} kB")
    return 1 if heavy else 0


if __name__ == "__main__":
    sys.exit(main())
