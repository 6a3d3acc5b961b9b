"""Build the site into ``_build/html``: ``python -m tools.book``. Nothing is executed, so torch is not needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "_build"
JUPYTER_BOOK = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]


def build() -> int:
    """From an empty folder, with every warning an error. Returns the exit code of jupyter-book."""
    shutil.rmtree(BUILD, ignore_errors=True)
    code = subprocess.run([*JUPYTER_BOOK, "build", ".", "-W", "-n", "--keep-going"], cwd=ROOT).returncode
    if code == 0:
        (BUILD / "book.stamp").touch()  # tells make that the site is up to date
    return code


def main() -> int:
    code = build()
    if code == 0:
        print(f"The book is built. Open {(BUILD / 'html' / 'index.html').as_uri()}")
    return code


if __name__ == "__main__":
    sys.exit(main())
