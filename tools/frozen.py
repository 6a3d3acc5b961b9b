"""Files of data/ that are made out of what ships with CPython: write them, or compare them with what is there."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

VERSION = "3.11.7"  # another version ships other texts
LICENCE = "PSF-2.0, see passages.LICENSE.txt. Copyright © 2001-2023 Python Software Foundation"


def lines(origin: str, changes: str, rows: Iterable[dict]) -> str:
    """A JSON object a line, after a first line that says where they come from and what was changed."""
    head = {"origin": f"CPython {VERSION}, {origin}", "licence": LICENCE, "changes": changes}
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [head, *rows])


def main(file: Path, content: Callable[[], str], description: str, licence: Path | None = None) -> int:
    """The command line of a maker: writes the file, or compares it with ``--check``; returns the exit code.

    licence: where CPython's licence is written, too.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    arguments = parser.parse_args()
    if platform.python_version() != VERSION:
        print(f"Python {VERSION} is needed to get the same text, this is {platform.python_version()}", file=sys.stderr)
        return 2
    new = content()
    if arguments.check:
        same = file.read_text(encoding="utf-8") == new
        print("the same" if same else "different")
        return 0 if same else 1
    file.write_text(new, encoding="utf-8")
    if licence:
        licence.write_bytes((Path(sysconfig.get_path("stdlib")) / "LICENSE.txt").read_bytes())
    print(f"{file}: {file.stat().st_size:,} bytes, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}")
    return 0
