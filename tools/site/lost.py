"""404.html: the page for an address that does not exist. Its template finds the book wherever it is published."""

from __future__ import annotations

import json
from collections.abc import Iterator


def page(app) -> Iterator[tuple[str, dict, str]]:
    titles = {name: title.astext() for name, title in app.env.titles.items()}
    pages = json.dumps([[f"{name}.html", title] for name, title in sorted(titles.items())], ensure_ascii=False)
    base = app.config.html_baseurl and app.config.html_baseurl.rstrip("/") + "/"
    yield "404", {"title": "Page not found", "base": base, "book_pages": pages.replace("<", "\\u003c")}, "404.html"
