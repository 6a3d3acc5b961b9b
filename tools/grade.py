"""Grade a folder of students' notebooks: ``python -m tools.grade FOLDER [--out grades.csv]``.

The answers of each notebook are put into the notebook as it was handed out, which runs in a process of its own,
without network, with a limit on time and memory. Two tables come out: one row a check (grades.csv: notebook, exercise,
status, message), and one row a notebook (grades-summary.csv: which notebook it is, checks passed, remarks). An answer
that loops or takes the process down is run no more, and said so; the other answers of the same student are graded.

Grading here is formative: the solutions are public, in the repository of the book, and whoever wants to deceive the
machine can. It runs the students' code, so use an account or a container that has nothing to lose.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from tools.answers import assemble, exercises_of, functions_in
from tools.pipeline.execute import NotebookError, execute
from tools.pipeline.products import Product, all_products
from tools.pipeline.source import solved_notebook, without_solutions
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED

STOPPED = "stopped"
REMARK = "remark"
UNREADABLE = "cannot be read"
UNKNOWN = "not a notebook of the book"
_RESULT = re.compile(rf"^(?P<name>\S+): (?P<status>{PASSED}|{NOT_ATTEMPTED}|{NOT_YET})(?: – (?P<message>.*))?$", re.S)

# Runs first in the kernel.
LIMIT = """
try:
    import resource as _resource
    _resource.setrlimit(_resource.RLIMIT_DATA, ({bytes}, {bytes}))
except (ImportError, ValueError, OSError):
    pass  # Windows has no such limit
"""
# Runs before the first answer and after each check: what the checks are made of, so that a change is seen.
FINGERPRINT = """
def _fingerprint():
    import json, sys, types
    def made_of(value):
        inner = vars(value).values() if isinstance(value, type) else []
        return [id(value), id(getattr(value, "__code__", None))] + [
            id(each) for each in inner if isinstance(each, types.FunctionType)]
    loaded = [(name, module) for name, module in list(sys.modules.items()) if name.split(".")[0] == "utils"]
    found = {f"{module}.{name}": made_of(value) for module, content in loaded
        for name, value in list(vars(content).items()) if callable(value)}
    sys.stdout.write(json.dumps(found))
_fingerprint()
"""


class Row(NamedTuple):
    notebook: str
    exercise: str
    status: str
    message: str


class Graded(NamedTuple):
    """One notebook. of: which notebook of the book it is, "" if none."""

    notebook: str
    of: str
    rows: list[Row]


class Limits(NamedTuple):
    """Of one run: seconds a cell may take, gigabytes of memory."""

    seconds: int = 120
    gigabytes: float = 4.0


LIMITS = Limits()


def check_results(notebook: NotebookNode) -> list[tuple[str, str, str]]:
    """(exercise, status, message) of each value of a cell that is a result of ``utils.exercises.check``, in order.

    What a cell prints does not count.
    """
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    texts = (output["data"].get("text/plain", "") for output in outputs if output["output_type"] == "execute_result")
    matches = (_RESULT.match(text.strip()) for text in texts)
    return [(m["name"], m["status"], m["message"] or "") for m in matches if m]


def grade(path: Path, folder: Path, products: Sequence[Product], limits: Limits = LIMITS) -> Graded:
    """Grade one notebook. products: the notebooks it may be a copy of."""
    name = path.relative_to(folder).as_posix()
    try:
        copy = nbformat.read(path, as_version=4)
        written = functions_in(copy)
    except Exception as error:  # noqa: BLE001 – a broken file must not keep the others from being graded
        first = (str(error).strip().splitlines() or [""])[0]
        return Graded(name, "", [Row(name, "", UNREADABLE, f"{type(error).__name__}: {first}")])
    solved = {product: _solved(product.source) for product in products if not product.solved}
    shared = {product: len(written & _asked(each)) for product, each in solved.items()}
    best = max(shared, key=shared.get, default=None)
    if best is None or not shared[best]:
        return Graded(name, "", [Row(name, "", UNKNOWN, "it defines no function that an exercise asks for")])
    found = _judged(solved[best], copy, limits)
    return Graded(name, best.name, [Row(name, *each) for each in found])


@cache
def _solved(source: Path) -> NotebookNode:
    """Read once for all the notebooks that a process grades; nothing changes it."""
    return solved_notebook(source)


def _asked(solved: NotebookNode) -> set[str]:
    return {name for exercise in exercises_of(solved) for name in exercise.functions}


def _judged(solved: NotebookNode, copy: NotebookNode, limits: Limits) -> list[tuple[str, str, str]]:
    """Exercise, status and message. Runs once, and once more for each answer that stops the run or changes the book."""
    pristine, ended, names = without_solutions(solved), {}, [exercise.name for exercise in exercises_of(solved)]
    while True:
        built = assemble(pristine, solved, copy, without=ended)
        found, blamed, reason = _run(_watched(built.notebook), limits)
        if blamed is None or blamed in ended:
            break
        ended[blamed] = reason
    if found is None:
        return [("", STOPPED, f"the notebook as handed out does not run here: {reason}")]
    fixed = {name: (name, NOT_YET, text) for name, text in built.broken.items()}
    fixed |= {name: (name, STOPPED, text) for name, text in ended.items()}
    silent = {name: (name, STOPPED, "its check gave no result") for name in names}
    rows = [(silent | _found(found) | fixed)[name] for name in names]
    return [*rows, *((name, REMARK, text) for name, text in (*built.remarks, *_errors(found)))]


def _run(notebook: NotebookNode, limits: Limits) -> tuple[NotebookNode | None, str | None, str]:
    """The executed notebook; or the exercise whose answer stopped it or changed the book's code, and how."""
    prelude, folder = LIMIT.format(bytes=int(limits.gigabytes * 1e9)), Path(tempfile.gettempdir())
    try:
        ran = execute(notebook, folder, prelude=prelude, allow_errors=True, timeout=limits.seconds).notebook
    except NotebookError as error:
        before = [cell.metadata.get("exercise") for cell in notebook.cells[: error.position + 1]]
        slow = f"runs longer than {limits.seconds} seconds" if "timed out" in str(error) else "its process died"
        return None, next(filter(None, reversed(before)), None), slow
    return ran, *_changed(ran)


def _watched(notebook: NotebookNode) -> NotebookNode:
    """With a fingerprint of the book's code before the first answer and after each check."""
    cells = []
    for cell in notebook.cells:
        part, mark = cell.metadata.get("part"), {**cell.metadata, "part": "fingerprint"}
        first = part == "answer" and not any(each.metadata.get("part") == "fingerprint" for each in cells)
        around = [new_code_cell(FINGERPRINT, metadata=mark)]
        cells += [*around * first, cell, *around * (part == "check")]
    return new_notebook(cells=cells, metadata=notebook.metadata)


def _changed(notebook: NotebookNode) -> tuple[str | None, str]:
    """The first exercise after whose check the book's code is not what it was, and what changed."""
    before = {}
    for cell in notebook.cells:
        if cell.metadata.get("part") == "fingerprint":
            try:
                now = json.loads(cell.outputs[-1].text)
            except (AttributeError, IndexError, ValueError):
                return cell.metadata["exercise"], "changes what the checks are made of"
            if changed := [name for name in before if now.get(name) != before[name]]:
                return cell.metadata["exercise"], f"changes {changed[0]} while it runs"
            before = now
    return None, ""


def _found(notebook: NotebookNode) -> dict[str, tuple[str, str, str]]:
    """Exercise → result, from the cells with the original checks alone."""
    checks = [cell for cell in notebook.cells if cell.metadata.get("part") == "check"]
    results = {cell.metadata["exercise"]: check_results(NotebookNode(cells=[cell])) for cell in checks}
    return {name: each[0] for name, each in results.items() if len(each) == 1 and each[0][0] == name}


def _errors(notebook: NotebookNode) -> list[tuple[str, str]]:
    """Exercise, or "" for a cell of the notebook itself, and the error with which a cell stopped."""
    remarks = []
    for cell in notebook.cells:
        name = cell.metadata.get("exercise", "")
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                where = "its cell" if name else "a cell of the notebook"
                remarks.append((name, f"{where} stopped: {output.ename}: {output.evalue}"))
    return remarks


def summary(graded: Graded) -> dict[str, object]:
    """One row a notebook."""
    judged = [row.status for row in graded.rows if row.exercise and row.status != REMARK]
    said = [row for row in graded.rows if row.status in (REMARK, STOPPED, UNREADABLE, UNKNOWN)]
    remarks = "; ".join(": ".join(filter(None, (row.exercise, row.message))) for row in said)
    counts = {"passed": judged.count(PASSED), "checks": len(judged)}
    return {"notebook": graded.notebook, "of": graded.of} | counts | {"remarks": remarks}


def main(arguments: list[str] | None = None, products: Sequence[Product] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.grade", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder with the students' notebooks")
    parser.add_argument("--out", type=Path, default=Path("grades.csv"), help="the table of checks (grades.csv)")
    parser.add_argument("--seconds", type=int, default=LIMITS.seconds, help="a cell may take (default %(default)s)")
    parser.add_argument("--gigabytes", type=float, default=LIMITS.gigabytes, help="a notebook may hold (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at a time (default 1)")
    options = parser.parse_args(arguments)
    notebooks = sorted(p for p in options.folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    if not notebooks:
        parser.error(f"no notebook below {options.folder}")
    one = partial(
        grade,
        folder=options.folder,
        products=all_products() if products is None else products,
        limits=Limits(options.seconds, options.gigabytes),
    )
    rows, lines = [], []
    with ProcessPoolExecutor(options.jobs) as pool:
        for graded in pool.map(one, notebooks):
            rows += [row._asdict() for row in graded.rows]
            lines.append(summary(graded))
            print("{notebook}: {passed} of {checks} checks passed. {remarks}".format(**lines[-1]), flush=True)
    short = options.out.with_name(f"{options.out.stem}-summary{options.out.suffix}")
    for path, table in ((options.out, rows), (short, lines)):
        with path.open("w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)
    print(f"{options.out} has a row a check, {short} a row a notebook. The solutions are public: this is no exam.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
