"""Run all tests, part by part, and print the time of each beside its budget: ``python -m tools.run_tests [PART ...]``.

Every part runs even when an earlier one failed; the exit code is 1 if any did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

from tools import book
from tools.pipeline import strict
from tools.pipeline.products import KINDS, ROOT

WHOLE = 20 * 60  # seconds on 2 cores
FOLDERS = {part: f"tests/{part}" for part in ("unit", "notebooks", "browser")} | {"pages": "tests/site"}


def _passed(process: subprocess.CompletedProcess) -> bool:
    if process.returncode < 0:
        print(f"stopped by signal {-process.returncode}: killed from outside, or out of memory", flush=True)
    return process.returncode == 0


def _run(*command: str) -> bool:
    """Two processes on two cores: each with one thread, or they take the cores from each other."""
    return _passed(subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}))


def _pytest(*arguments: str) -> bool:
    return _run(sys.executable, "-m", "pytest", "-q", "--durations=5", *arguments)


def style() -> bool:
    """The style of the code: ruff"""
    ruff = (sys.executable, "-m", "ruff")
    return all([_run(*ruff, "check", "."), _run(*ruff, "format", "--check", ".")])


def unit() -> bool:
    """The helpers against independent references and bad input"""
    return _pytest("-n", "2", FOLDERS["unit"])


def notebooks() -> bool:
    """Notebooks against their source, the rules of the book, and random weights"""
    return _pytest("-n", "2", FOLDERS["notebooks"])


def nbval(threads: int = 1) -> bool:
    """Every notebook run again, every output compared with the stored one"""
    folders = [kind for kind in KINDS if any((ROOT / kind).rglob("*.ipynb"))]
    return _passed(strict.nbval("-n", "2", "--dist", "loadfile", "--durations=5", *folders, threads=threads))


def site() -> bool:
    """The site built from an empty folder, every warning an error"""
    return book.build() == 0


def pages() -> bool:
    """The built pages: links, citations, texts, what is derived from data"""
    return _pytest("-n", "2", "--dist", "loadfile", FOLDERS["pages"])


def browser() -> bool:
    """The built pages in a browser without network"""
    return _pytest("-rs", "-n", "2", FOLDERS["browser"])


PARTS: dict[str, tuple[Callable[[], bool], int]] = {  # what it runs, budget in seconds
    "style": (style, 10),
    "unit": (unit, 230),
    "notebooks": (notebooks, 220),
    "nbval": (nbval, 270),
    "site": (site, 30),
    "pages": (pages, 50),
    "browser": (browser, 390),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one or more of {', '.join(PARTS)}; all if none")
    parser.add_argument("--threads", type=int, default=1, help="threads of a notebook's kernel in nbval (default 1)")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    results = []
    for name in options.parts or PARTS:
        part, budget = PARTS[name]
        print(f"\n=== {name} ===", flush=True)
        start = time.perf_counter()
        passed = nbval(options.threads) if name == "nbval" else part()
        results.append((name, passed, time.perf_counter() - start, budget))
    print(_table(results, whole=not options.parts), flush=True)
    return 0 if all(passed for _, passed, _, _ in results) else 1


def _table(results: list[tuple[str, bool, float, int]], whole: bool) -> str:
    total = sum(seconds for _, _, seconds, _ in results)
    rows = [(name, "passed" if passed else "FAILED", seconds, budget) for name, passed, seconds, budget in results]
    if whole:
        rows.append(("whole", "passed" if all(r[1] for r in results) else "FAILED", total, WHOLE))
    lines = [f"\n{'part':<10} {'result':<7} {'seconds':>8} {'budget':>7}"]
    for name, result, seconds, budget in rows:
        over = "  over budget" if seconds > budget else ""
        lines.append(f"{name:<10} {result:<7} {seconds:>8.1f} {budget:>7}{over}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
