"""What every interactive figure is: ONE deterministic HTML output that works alone, without kernel, network or ids.

A figure is a custom element, its data as JSON, and the script that draws it. Where scripts do not run, the
element shows its fallback: a small picture and a short table. Whatever depends on a model's numbers is coded in base64
(see ``utils.payload``), so that a stored output can be compared with tolerance: ``payload.unpack(html)``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np

from utils.payload import pack

NAME = re.compile(r"[a-z]+(-[a-z]+)+")
PARTS = {"attention-explorer": ("attention-picture",)}  # scripts that stand before that of the element


@cache
def palette() -> dict[str, dict[str, str]]:
    """The colours of the book: name → {"light", "dark"}."""
    return json.loads(files("utils").joinpath("palette.json").read_text("utf8"))


@cache
def script(tag: str) -> str:
    """The JavaScript of one element: colours of the book, the shared part, the element; without indent and comments."""
    parts = [
        files("utils").joinpath("js", f"{name}.js").read_text("utf8") for name in ("common", *PARTS.get(tag, ()), tag)
    ]
    lines = (line.strip() for part in parts for line in part.splitlines())
    return "\n".join(
        [
            f"const PALETTE = {json.dumps(palette(), sort_keys=True)};",
            *(line for line in lines if line and line[:2] != "//"),
        ]
    )


@dataclass(frozen=True)
class Figure:
    """An interactive figure. Show it as the last expression of a cell.

    tag: name of the custom element, its script is utils/js/<tag>.js. data: JSON values the element reads.
    alt: what is drawn, in one sentence. fallback: HTML shown where scripts do not run. arrays: numbers, stored coded.
    """

    tag: str
    data: Mapping
    alt: str
    fallback: str = ""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.tag) or not files("utils").joinpath("js", f"{self.tag}.js").is_file():
            raise ValueError(f"no element is called {self.tag!r}: there is no utils/js/{self.tag}.js")
        if not self.alt.strip():
            raise ValueError("a figure needs an alt text: say in one sentence what is drawn")

    def html(self) -> str:
        """The element, its data and its script; equal input gives equal text."""
        content = dict(self.data) | ({"arrays": pack(self.arrays)} if self.arrays else {})
        data = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return (
            f'<{self.tag} role="group" aria-label="{escape(self.alt)}">'
            f'<script type="application/json">{data.replace("<", chr(92) + "u003c")}</script>'
            f'{self.fallback}</{self.tag}><script type="module">{script(self.tag)}</script>'
        )

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": f"<{self.tag}: {self.alt}>"}


MARKS = re.compile(r"`([^`]+)`|_\{([^}]+)\}|\^\{([^}]+)\}|(?<=[A-Za-z])_([A-Za-z0-9])(?![A-Za-z0-9_])")


def rich(text: str) -> str:
    """Plain text to safe HTML, with `code`, W_K, _{sub} and ^{super}; inside `code` nothing else is read."""

    def mark(found: re.Match) -> str:
        code, sub, sup, letter = found.groups()
        return f"<code>{code}</code>" if code else f"<sup>{sup}</sup>" if sup else f"<sub>{sub or letter}</sub>"

    return MARKS.sub(mark, escape(text))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A small HTML table of escaped text; the first cell of a row names it."""
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{escape(str(row[0]))}</th>'
        + "".join(f"<td>{escape(str(v))}</td>" for v in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
