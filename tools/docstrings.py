"""Rebuild data/docstrings.jsonl: what the docstrings of CPython's standard library say first, and what they say then.

    python -m tools.docstrings            writes data/docstrings.jsonl
    python -m tools.docstrings --check    compares the frozen file with what this interpreter gives

The frozen file comes from CPython 3.11.7; another version has other docstrings and gives other pairs. Its licence is
that of the passages, data/passages.LICENSE.txt (PSF-2.0).
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tools import frozen

DATA = Path(__file__).resolve().parent.parent / "data"
FILE = DATA / "docstrings.jsonl"
COUNT = 400
QUERY_WORDS, PASSAGE_WORDS = range(5, 26), range(25, 121)
PROSE = 0.93  # share of letters, blanks, commas, points and semicolons
ALIKE = 0.5  # share of words in common from which two passages, or two queries, answer to each other
NOT_LIBRARY = {"test", "tests", "idlelib", "lib2to3", "site-packages", "dist-packages", "turtledemo", "ensurepip"}
NOT_PROSE = re.compile(r">>>|::|[*`|<>=]|--|\.\.\.|^\s*(Args|Returns?|Raises|Arguments|Parameters|Notes?):", re.M)
SENTENCE_ENDS = re.compile(r"(?<=[a-z0-9)'\"][.])\s+(?=[A-Z])")

Found = dict[str, str]


def docstrings() -> Iterator[tuple[str, str]]:
    """(module and name, docstring) of every public class and function with one, in the order of the files."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if NOT_LIBRARY & set(parts) or parts[0].startswith("_sysconfigdata"):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            is_named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if is_named and not node.name.startswith("_") and (text := ast.get_docstring(node)):
                yield ".".join((*parts, node.name)), text


def pair(text: str) -> tuple[str, str] | None:
    """First sentence and rest of a docstring that is prose throughout: no code, lists, sections or indented lines."""
    if NOT_PROSE.search(text) or any(line[:1].isspace() or line[:2] == "- " for line in text.splitlines()):
        return None
    query, *rest = SENTENCE_ENDS.split(" ".join(text.split()), maxsplit=1)
    passage = rest[0] if rest else ""
    plain = sum(character.isalpha() or character in " ,.;" for character in passage)
    is_prose = query[:1].isupper() and passage[-1:] == "." and plain > PROSE * len(passage)
    is_long_enough = len(query.split()) in QUERY_WORDS and len(passage.split()) in PASSAGE_WORDS
    return (query, passage) if is_prose and is_long_enough else None


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", text.lower()))


def alike(first: frozenset[str], second: frozenset[str]) -> bool:
    """True if the two share half of all their words (Jaccard)."""
    return len(first & second) >= ALIKE * len(first | second)


def pairs() -> list[Found]:
    """The first ``COUNT`` pairs in the order of their SHA-256, which mixes the modules; of similar ones the first."""
    found = [(name, *both) for name, text in docstrings() if (both := pair(text))]
    found.sort(key=lambda each: hashlib.sha256("\n".join(each).encode()).hexdigest())
    chosen: list[Found] = []
    seen: list[tuple[frozenset[str], frozenset[str]]] = []
    for name, query, passage in found:
        bags = words(query), words(passage)
        if not any(alike(bags[0], other[0]) or alike(bags[1], other[1]) for other in seen):
            seen.append(bags)
            chosen.append({"name": name, "query": query, "passage": passage})
    text = "\n".join(each["passage"] for each in chosen).lower()
    return [each for each in chosen if each["query"].lower().rstrip(".") not in text][:COUNT]


def content() -> str:
    """The file: a first line that says where the pairs come from, then a pair a line."""
    origin = "docstrings of public classes and functions of the standard library"
    return frozen.lines(
        origin, "docstrings of prose were selected, line breaks removed, and the first sentence separated", pairs()
    )


if __name__ == "__main__":
    raise SystemExit(frozen.main(FILE, content, __doc__))
