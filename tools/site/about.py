"""What a page says about itself: its description for shared links and search engines, the commit it was built from."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from html import escape
from pathlib import Path

from docutils import nodes

CARD = "social-card.png"  # in assets/, 1200 × 630, made by tools/social_card.py
MARKER = re.compile(r'<span class="build-commit">[^<]*</span>')
SHORTEST, LONGEST = 60, 200  # characters of a description


@cache
def commit(root: str) -> str:
    """The short hash of the checkout whose root this is, else ``unknown``."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        inside = Path(git("rev-parse", "--show-toplevel")).resolve() == Path(root).resolve()
        return git("rev-parse", "--short", "HEAD") if inside else "unknown"
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def sentences(paragraph: nodes.paragraph) -> str:
    """As many sentences as say something, without a label such as **The insight.** before them."""
    parts = [part for part in paragraph if part.astext()]
    text = "".join(part.astext() for part in parts[isinstance(parts[0], nodes.strong) :]) if parts else ""
    taken = ""
    for sentence in re.split(r"(?<=[.!?])\s", " ".join(text.split())):
        if len(taken) < SHORTEST:
            taken = f"{taken} {sentence}".strip()
    return taken if len(taken) <= LONGEST else taken[:LONGEST].rsplit(" ", 1)[0] + " …"


def description(doctree: nodes.document | None) -> str:
    """How the text begins: the first paragraph that is long enough and has no formula, else nothing."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        text = "" if list(paragraph.findall(nodes.math)) else sentences(paragraph)
        if len(text) >= SHORTEST:
            return text
    return ""


def properties(app, pagename: str, doctree: nodes.document | None) -> dict[str, str]:
    """Name to content of the elements that other sites read."""
    title = next((node.astext() for node in doctree.findall(nodes.title)), "") if doctree else ""
    base = (app.config.html_baseurl or "").rstrip("/")
    text = description(doctree)
    found = {
        "description": text,
        "og:title": title or app.config.project,
        "og:description": text,
        "og:site_name": app.config.project,
        "og:type": "website" if pagename == app.config.root_doc else "article",
        "og:url": base and f"{base}/{pagename}.html",
        "og:image": base and f"{base}/_static/{CARD}",
        "og:image:alt": base and f"Title of the book: {app.config.project}",
        "twitter:card": "summary_large_image" if base else "summary",
    }
    return {name: content for name, content in found.items() if content}


def describe(app, pagename, templatename, context, doctree) -> None:
    """Write the elements into the head, and the commit into ``<span class="build-commit"></span>``."""
    elements = [
        f'<meta {"property" if name.startswith("og:") else "name"}="{name}" content="{escape(content)}"/>'
        for name, content in properties(app, pagename, doctree).items()
    ]
    context["metatags"] = context.get("metatags", "") + "\n    ".join(["", *elements])
    if context.get("body"):
        filled = f'<span class="build-commit">{commit(str(app.srcdir))}</span>'
        context["body"] = MARKER.sub(filled, context["body"])
