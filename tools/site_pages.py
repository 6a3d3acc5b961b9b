"""Write what the site derives from data: ``python -m tools.site_pages``; with ``--check`` compare only.

- assets/course.css: the palette, from utils/palette.json
- index.md: the score and one card an insight, from data/claims.yaml and from what the notebooks recorded
- pages/evidence.md and pages/evidence.csv: the whole ledger, with what the notebooks measured
- pages/status.md: what was measured of the book itself
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools import evidence, evidence_csv, landing, records, status_page
from tools.records import ROOT
from utils import claims

COMMAND = "python -m tools.site_pages"


def palette_css(palette: dict) -> str:
    """The palette as custom properties ``--ai-…`` for the light and for the dark theme."""
    rules = {"light": ':root, html[data-theme="light"]', "dark": 'html[data-theme="dark"]'}
    return "\n".join(
        f"{rule} {{\n" + "".join(f"  --ai-{name}: {shades[theme]};\n" for name, shades in palette.items()) + "}"
        for theme, rule in rules.items()
    )


def between(text: str, start: str, end: str, new: str) -> str:
    """``text`` with everything between the lines ``start`` and ``end`` replaced by ``new``."""
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"expected one {start!r} and one {end!r}: restore these two lines")
    head, rest = text.split(start)
    return f"{head}{start}\n{new}\n{end}{rest.split(end)[1]}"


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Every derived file with the text it should have."""
    ledger = claims.load()
    documents = records.documents(root)
    found = records.recorded(documents, root)
    css, index = root / "assets" / "course.css", root / "index.md"
    palette = json.loads((root / "utils" / "palette.json").read_text("utf8"))
    front = between(index.read_text("utf8"), "% score: begin", "% score: end", landing.score(ledger, found))
    return {
        css: between(css.read_text("utf8"), "/* palette: begin */", "/* palette: end */", palette_css(palette)),
        index: between(front, "% cards: begin", "% cards: end", landing.cards(ledger, documents, found)),
        root / "pages" / "evidence.md": evidence.page(ledger, documents, found, root, COMMAND),
        root / "pages" / "evidence.csv": evidence_csv.sheet(ledger, found),
        root / "pages" / "status.md": status_page.page(root, documents),
    }


def stale(root: Path = ROOT) -> list[Path]:
    """Derived files that differ from what they should be."""
    return [path for path, text in pages(root).items() if not path.exists() or path.read_text("utf8") != text]


def main() -> None:
    if "--check" in sys.argv[1:]:
        if found := stale():
            sys.exit(f"out of date: {', '.join(str(path.relative_to(ROOT)) for path in found)}; run {COMMAND}")
        return
    for path, text in pages().items():
        path.write_text(text, encoding="utf8", newline="\n")


if __name__ == "__main__":
    main()
