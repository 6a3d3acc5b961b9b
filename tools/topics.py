"""Rebuild data/topics.jsonl: first sentences of docstrings of CPython's standard library, each with its topic.

    python -m tools.topics            writes data/topics.jsonl
    python -m tools.topics --check    compares the frozen file with what this interpreter gives

The frozen file comes from CPython 3.11.7; another version has other docstrings and gives other sentences. Its licence
is that of the passages, data/passages.LICENSE.txt (PSF-2.0).
"""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools import frozen

FILE = Path(__file__).resolve().parent.parent / "data" / "topics.jsonl"
TOPICS = {  # as the chapters of the Python Library Reference; a name stands for its submodules, too
    "files": "bz2 filecmp fileinput fnmatch genericpath glob gzip linecache lzma ntpath os pathlib posixpath shutil "
    "tarfile tempfile zipfile",
    "internet": "asynchat cgi ftplib http imaplib nntplib poplib smtpd smtplib socket socketserver ssl telnetlib "
    "urllib wsgiref xmlrpc",
    "concurrency": "asyncio concurrent multiprocessing queue sched subprocess threading",
    "language": "ast code codeop dis importlib inspect modulefinder pkgutil runpy symtable tokenize traceback "
    "zipimport",
    "testing": "bdb cProfile doctest pdb profile pstats pydoc timeit trace tracemalloc unittest",
}
COUNTS = {"test": 40, "validation": 20, "train": 56}  # sentences of each topic, in the order in which modules are given
PER_MODULE = 20
WORDS = range(4, 17)
ALIKE = 0.5  # share of words in common from which the later of two sentences is left out
NOT_PROSE = re.compile(r">>>|::|[*`|<>=_\\{}]|--|\.\.\.")
SENTENCE_ENDS = re.compile(r"(?<=[a-z0-9)'\"][.])\s+(?=[A-Z])")

Row = dict[str, str]


def docstrings(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(module, docstring) of every public class and function with one, in the modules and packages named."""
    library = Path(sysconfig.get_path("stdlib"))
    for name in names:
        package = library / name
        for path in sorted(package.rglob("*.py")) if package.is_dir() else [library / f"{name}.py"]:
            if path.is_file() and "test" not in path.parts:
                module = ".".join(path.relative_to(library).with_suffix("").parts).removesuffix(".__init__")
                yield from ((module, text) for text in _of_file(path))


def _of_file(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        is_named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_named and not node.name.startswith("_") and (text := ast.get_docstring(node)):
            yield text


def sentence(text: str) -> str | None:
    """The first sentence of a docstring, if it is prose of a fit length."""
    first = SENTENCE_ENDS.split(" ".join(text.split("\n\n")[0].split()), maxsplit=1)[0]
    fits = first[:1].isupper() and len(first.split()) in WORDS and not NOT_PROSE.search(first)
    return first if fits else None


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", text.lower()))


def mixed(texts: Iterable[str]) -> list[str]:
    """In the order of their SHA-256."""
    return sorted(texts, key=lambda text: hashlib.sha256(text.encode()).hexdigest())


def rows() -> list[Row]:
    """Every module lies in one split; no two sentences are alike; each topic has ``COUNTS`` sentences in each split."""
    seen: list[frozenset[str]] = []
    chosen = {row["text"]: row for topic in TOPICS for row in _of_topic(topic, seen)}
    return [chosen[text] for text in mixed(chosen)]


def _of_topic(topic: str, seen: list[frozenset[str]]) -> list[Row]:
    """Modules in mixed order: whole ones to the test set until it is full, then to validation, then to training."""
    found: dict[str, set[str]] = {}
    for module, text in docstrings(TOPICS[topic].split()):
        if first := sentence(text):
            found.setdefault(module, set()).add(first)
    modules, chosen = iter(mixed(found)), []
    for split, count in COUNTS.items():
        while count > 0:
            if (module := next(modules, None)) is None:
                raise ValueError(f"topic {topic!r} lacks {count} sentences for {split}: name more modules")
            kept = [text for text in mixed(found[module]) if _is_new(text, seen)][: min(PER_MODULE, count)]
            chosen += [{"split": split, "topic": topic, "module": module, "text": text} for text in kept]
            count -= len(kept)
    return chosen


def _is_new(text: str, seen: list[frozenset[str]]) -> bool:
    bag = words(text)
    if any(len(bag & other) >= ALIKE * len(bag | other) for other in seen):
        return False
    seen.append(bag)
    return True


def content() -> str:
    """The file: a first line that says where the sentences come from, then a sentence a line."""
    origin = "docstrings of public classes and functions of the standard library"
    return frozen.lines(origin, "first sentences of prose were selected, line breaks removed, topics added", rows())


if __name__ == "__main__":
    raise SystemExit(frozen.main(FILE, content, __doc__))
