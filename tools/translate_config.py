"""The configuration of a translated site: ``python -m tools.translate_config ko [--title TITLE]``.

Writes ``_config_ko.yml`` and ``_toc_ko.yml`` out of ``_config.yml`` and ``_toc.yml``. Texts are translated in
``locale/ko/LC_MESSAGES/**/*.po``; Sphinx reads them by itself, but not the captions of the sidebar: those are taken
from ``index.po`` and put into the table of contents. The page on contributing has the steps before and after.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import yaml
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"[a-z]{2,3}(_[A-Z][A-Za-z]+)?")
FOLDER = "locale"


def translated(catalogue: Path) -> dict[str, str]:
    """What a .po file translates; empty without the file. Fuzzy entries do not count, as Sphinx leaves them out."""
    if not catalogue.is_file():
        return {}
    with catalogue.open("rb") as file:
        return {entry.id: entry.string for entry in read_po(file) if entry.id and entry.string and not entry.fuzzy}


def config(book: dict, language: str, title: str | None = None) -> dict:
    """The configuration of the site in a language. book: that of the English site."""
    sphinx = {"language": language, "locale_dirs": [FOLDER], "gettext_compact": False}
    settings = {**book["sphinx"], "config": {**book["sphinx"]["config"], **sphinx}}
    return {**book, "title": title or book["title"], "sphinx": settings}


def contents(toc: dict, words: dict[str, str]) -> dict:
    """The table of contents with its captions translated; a caption without a translation stays."""
    parts = [{**part, "caption": words.get(part["caption"], part["caption"])} for part in toc["parts"]]
    return {**toc, "parts": parts}


def write(language: str, title: str | None = None, root: Path = ROOT) -> list[Path]:
    """Write both files; returns their paths. Raises ValueError for what is no code of a language."""
    if not CODE.fullmatch(language):
        raise ValueError(f"language is {language!r}: give a code such as ko, de or pt_BR")
    book, toc = (yaml.safe_load((root / name).read_text("utf8")) for name in ("_config.yml", "_toc.yml"))
    words = translated(root / FOLDER / language / "LC_MESSAGES" / "index.po")
    made = {f"_config_{language}.yml": config(book, language, title), f"_toc_{language}.yml": contents(toc, words)}
    for name, content in made.items():
        (root / name).write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf8")
    return [root / name for name in made]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.translate_config", description=__doc__.split("\n")[0])
    parser.add_argument("language", help="code of the language, such as ko")
    parser.add_argument("--title", help="title of the book in that language (default: the English one)")
    options = parser.parse_args(arguments)
    try:
        paths = write(options.language, options.title)
    except ValueError as error:
        parser.error(str(error))
    print(f"written: {', '.join(path.name for path in paths)}")


if __name__ == "__main__":
    main()
