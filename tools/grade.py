"""Run students' notebooks and tabulate what their checks say: ``python -m tools.grade FOLDER [--out grades.csv]``.

Each notebook below FOLDER is executed as it is, from its first cell to its last, without network. One row a check:
notebook, exercise, status, message. A notebook that cannot be read, does not reach its end, or holds no check gets a
row that says so.

It reports what the notebook says. A student can edit a check, so read the notebook before a mark depends on it; and
this runs the students' code, so use an account or a container that has nothing to lose.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from tools.pipeline.execute import NotebookError, execute

_RESULT = re.compile(
    r"^(?P<name>\S+): (?P<status>passed|not attempted yet|not yet right)(?: – (?P<message>.*))?$", re.S
)


class Row(NamedTuple):
    notebook: str
    exercise: str
    status: str
    message: str


def check_results(notebook: NotebookNode) -> list[tuple[str, str, str]]:
    """(exercise, status, message) of each result of ``utils.exercises.check`` among the outputs, in order."""
    texts = (
        output["data"].get("text/plain", "") if "data" in output else output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    matches = (_RESULT.match(text.strip()) for text in texts)
    return [(m["name"], m["status"], m["message"] or "") for m in matches if m]


def grade(path: Path, folder: Path) -> list[Row]:
    """Execute one notebook and read its checks."""
    name = path.relative_to(folder).as_posix()
    try:
        run = execute(nbformat.read(path, as_version=4), path.parent, allow_errors=True, timeout=120)
    except Exception as error:  # noqa: BLE001 – a broken file must not keep the others from being graded
        lines = str(error).strip().splitlines() or [""]
        found = lines[-1] if isinstance(error, NotebookError) else f"{type(error).__name__}: {lines[0]}"
        return [Row(name, "", "did not run to its end", found)]
    rows = [Row(name, *result) for result in check_results(run.notebook)]
    errors = [out for cell in run.notebook.cells for out in cell.get("outputs", []) if out.output_type == "error"]
    rows = rows or [Row(name, "", "no check in it", "is this the notebook that was handed out?")]
    return rows + [Row(name, "", "a cell stopped", f"{error.ename}: {error.evalue}") for error in errors]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.grade", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with the students' notebooks")
    parser.add_argument("--out", type=Path, default=Path("grades.csv"), help="the table to write (default grades.csv)")
    options = parser.parse_args(arguments)
    notebooks = sorted(p for p in options.folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    if not notebooks:
        parser.error(f"no notebook below {options.folder}")
    rows = []
    for path in notebooks:
        found = grade(path, options.folder)
        counts = Counter(row.status for row in found)
        print(f"{found[0].notebook}: " + ", ".join(f"{n} {s}" for s, n in counts.items()), flush=True)
        rows += found
    with options.out.open("w", newline="", encoding="utf8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(rows)
    print(f"{options.out}: {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
