"""Rebuild data/passages.jsonl: English prose out of the documentation that ships with CPython.

    python -m tools.passages            writes data/passages.jsonl and data/passages.LICENSE.txt
    python -m tools.passages --check    compares the frozen file with what this interpreter gives

The frozen file comes from CPython 3.11.7; another version has another documentation and gives other passages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

from tools import frozen

DATA = Path(__file__).resolve().parent.parent / "data"
FILE, LICENCE = DATA / "passages.jsonl", DATA / "passages.LICENSE.txt"
WORDS = range(25, 121)
PROSE = 0.93  # share of letters, blanks, commas, points and semicolons
LISTS_AND_NOTES = re.compile(r"[-*]\s|\d+[.]\s|\(\d+\)|(Changed|New|Deprecated|From|Added) in|From version|PEP ")

EMPHASIS = re.compile(r"(?<!\w)\*(\w[^*]*?)\*(?!\w)")


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of one topic that are prose: no grammar, no code, no list items, no change notes."""
    for paragraph in re.split(r"\n\s*\n", text):
        line = EMPHASIS.sub(r"\1", " ".join(paragraph.split()))
        plain = sum(character.isalpha() or character in " ,.;" for character in line)
        is_prose = (
            line[-1:] == "." and line[:1].isupper() and not any(sign in line for sign in ("::=", ">>>", "*", "`"))
        )
        if is_prose and len(line.split()) in WORDS and plain / len(line) > PROSE and not LISTS_AND_NOTES.match(line):
            yield line


def passages() -> list[dict[str, str]]:
    """Passages without duplicates, in the order of their SHA-256, so that the first n of them mix the topics."""
    found = {text: topic for topic in sorted(topics) for text in paragraphs(topics[topic])}
    ordered = sorted(found, key=lambda text: hashlib.sha256(text.encode()).hexdigest())
    return [{"topic": found[text], "text": text} for text in ordered]


def content() -> str:
    """The file: a first line that says where the passages come from, then a passage a line."""
    origin = "pydoc_data.topics (the Python Language Reference as plain text)"
    return frozen.lines(
        origin, "paragraphs of prose were selected; line breaks and asterisks for emphasis were removed", passages()
    )


if __name__ == "__main__":
    raise SystemExit(frozen.main(FILE, content, __doc__, LICENCE))
