"""Plain text in MyST: nothing in it can start markup."""

from __future__ import annotations

import re

from utils import claims

MARKUP = re.compile(r"[\\`*_{}\[\]<>$&|~#]")  # anywhere in a line
BLOCK = re.compile(r"^(\d*)([-+=:%().])")  # where a line begins
TOP = r"^\top"


def line(text: object) -> str:
    """The text in one line, without control characters."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", str(text)).split())


def md(text: object) -> str:
    """Plain text as one line of MyST: markup is escaped, symbols such as W_Q become formulas."""
    text, pieces, end = line(text), [], 0
    for symbol in claims.SYMBOL.finditer(text):
        formula = f"${symbol[1]}_{{{symbol[2]}}}{TOP if symbol[3] else ''}$"
        pieces += [MARKUP.sub(r"\\\g<0>", text[end : symbol.start()]), formula]
        end = symbol.end()
    return BLOCK.sub(r"\1\\\2", "".join([*pieces, MARKUP.sub(r"\\\g<0>", text[end:])]))


def cited(key: str) -> str:
    """The source, linked to its place in the bibliography."""
    return f"{{cite:t}}`{key}`"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are MyST already."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])
