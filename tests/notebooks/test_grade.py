"""Grading: every kind of copy that comes back gets its row, and costs the others nothing."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools import grade
from tools.answers import assemble, exercises_of
from tools.pipeline.normalise import write
from tools.pipeline.products import products_of
from tools.pipeline.source import solved_notebook, without_solutions

LAB = '''# %% [markdown]
# # Lab 9: Numbers

# %%
import math

from utils.exercises import check

numbers = [3, 1, 2]


# %%
def largest(values):
    """The largest of some numbers."""
    ### BEGIN SOLUTION
    return max(values)
    ### END SOLUTION


def finds_it(attempt):
    assert attempt(numbers) == 3, "it is 3: compare all values"
    assert attempt([-1, -2]) == -1, "negative numbers count, too"


check("L9.1", largest, finds_it)


# %%
def root(value):
    """The square root."""
    ### BEGIN SOLUTION
    return math.sqrt(value)
    ### END SOLUTION


def squares_back(attempt):
    assert abs(attempt(9) - 3) < 1e-6, "3 times 3 is 9"


check("L9.2", root, squares_back)
'''
STUB = "    # YOUR CODE HERE\n    raise NotImplementedError()"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("book") / "source" / "labs" / "9_numbers.py"
    path.parent.mkdir(parents=True)
    path.write_text(LAB, encoding="utf8")
    return path


def answered(source: Path, largest: str, root: str = "return value**0.5", more: str | None = None) -> NotebookNode:
    """A copy with two answers, given as bodies, and one more cell before the first exercise."""
    copy = without_solutions(solved_notebook(source))
    for cell, body in zip(copy.cells[2:], (largest, root), strict=True):
        assert STUB in cell.source
        cell.source = cell.source.replace(STUB, "    " + body.replace("\n", "\n    "))
    if more is not None:
        copy.cells.insert(2, new_code_cell(more, id="added"))
    return copy


def edited(copy: NotebookNode, before: str, after: str, cell: int = 2) -> NotebookNode:
    assert before in copy.cells[cell].source
    copy.cells[cell].source = copy.cells[cell].source.replace(before, after)
    return copy


RIGHT = "return max(values)"
ADDED = "import math\nimport statistics\n\ndef top(values):\n    return sorted(values)[-1]"
PATCH = "import utils.exercises\nutils.exercises.Result.__repr__ = lambda self: self.name + ': passed'\nreturn 0"
# copy → its notebook, status of L9.1 and of L9.2, a part of what must be said
COPIES: dict[str, tuple[Callable[[Path], NotebookNode], str, str, str]] = {
    "right": (lambda s: answered(s, RIGHT), "passed", "passed", ""),
    "wrong": (lambda s: answered(s, "return max(0, *values)"), "not yet right", "passed", "negative numbers count"),
    "empty": (lambda s: without_solutions(solved_notebook(s)), "not attempted yet", "not attempted yet", ""),
    "prints": (lambda s: answered(s, "print('L9.1: passed')\nreturn 0"), "not yet right", "passed", ""),
    "no-syntax": (lambda s: answered(s, "return max(values"), "not yet right", "passed", "cannot be read"),
    "loops": (lambda s: answered(s, "while True: pass"), "stopped", "passed", "longer than 10 seconds"),
    "dies": (lambda s: answered(s, "import os; os._exit(1)"), "stopped", "passed", "its process died"),
    "hogs": (lambda s: answered(s, "return max(bytearray(10**10))"), "not yet right", "passed", "MemoryError"),
    "check-gone": (
        lambda s: edited(answered(s, "return 3"), 'check("L9.1", largest, finds_it)', 'print("L9.1: passed")'),
        "not yet right",
        "passed",
        "its check was changed or removed",
    ),
    "test-edited": (
        lambda s: edited(answered(s, "return 0"), "attempt(numbers) == 3", "attempt(numbers) == 0"),
        "not yet right",
        "passed",
        "its check was changed or removed",
    ),
    "check-renamed": (
        lambda s: answered(s, "return 0", more="def check(name, *rest):\n    return name"),
        "not yet right",
        "passed",
        "gives check another meaning",
    ),
    "patches": (lambda s: answered(s, PATCH), "stopped", "passed", "changes utils.exercises.Result while it runs"),
    "helper": (lambda s: answered(s, "return top(values)", more=ADDED), "passed", "passed", ""),
    "deleted": (
        lambda s: new_notebook(cells=[c for c in answered(s, RIGHT).cells if "def root" not in c.source]),
        "passed",
        "not yet right",
        "was its cell deleted?",
    ),
}


@pytest.fixture(scope="module")
def tables(source, tmp_path_factory) -> tuple[dict, dict]:
    """Rows by notebook and exercise, and summaries by notebook, of a class with every kind of copy."""
    folder = tmp_path_factory.mktemp("submissions")
    for name, (make, *_) in COPIES.items():
        write(make(source), folder / f"{name}.ipynb")
    broken = {
        "cut": b'{"cells": [',
        "nothing": b"",
        "list": b"[]",
        "keys": b'{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[{"cell_type":"code"}]}',
        "bytes": b'{"cells":[],"metadata":{"a":"\xff"},"nbformat":4,"nbformat_minor":5}',
    }
    for name, content in broken.items():
        (folder / f"{name}.ipynb").write_bytes(content)
    (folder / "folder.ipynb").mkdir()
    write(new_notebook(cells=[new_code_cell("def other(): pass", id="one")]), folder / "other.ipynb")
    limits = ["--seconds", "10", "--gigabytes", "2", "--jobs", "2"]
    products = products_of(source, source.parents[2])
    assert grade.main([str(folder), "--out", str(folder / "grades.csv"), *limits], products) == 0
    with (folder / "grades.csv").open(encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    with (folder / "grades-summary.csv").open(encoding="utf8") as file:
        return rows, {row["notebook"].removesuffix(".ipynb"): row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", COPIES)
def test_each_kind_of_copy_gets_its_rows(tables, name):
    rows, summaries = tables
    _, first, second, said = COPIES[name]
    own = [row for row in rows if row["notebook"] == f"{name}.ipynb"]
    judged = {row["exercise"]: row for row in own if row["status"] != grade.REMARK}
    assert list(judged) == ["L9.1", "L9.2"]
    assert judged["L9.1"]["status"] == first
    assert judged["L9.2"]["status"] == second
    assert any(said in row["message"] for row in own)
    assert summaries[name]["of"] == "labs/9-numbers.ipynb"
    assert int(summaries[name]["checks"]) == 2
    assert int(summaries[name]["passed"]) == sum(row["status"] == "passed" for row in judged.values())


def test_a_right_answer_leaves_no_remark(tables):
    assert [tables[1][name]["remarks"] for name in ("right", "wrong", "empty", "helper")] == [""] * 4


@pytest.mark.parametrize("name", ["cut", "nothing", "list", "keys", "bytes", "folder"])
def test_a_file_that_is_no_notebook_is_named(tables, name):
    (row,) = (row for row in tables[0] if row["notebook"] == f"{name}.ipynb")
    assert (row["exercise"], row["status"]) == ("", grade.UNREADABLE)
    assert tables[1][name]["remarks"]


def test_a_notebook_of_somebody_else_is_named(tables):
    assert "no function that an exercise asks for" in tables[1]["other"]["remarks"]


def test_results_of_checks_are_read_from_values_alone():
    texts = ["1.1: passed", "1.2: not attempted yet", "1.3: not yet right – row 0: still 1", "loss: passed it", "3"]
    outputs = [new_output("execute_result", data={"text/plain": text}) for text in texts]
    printed = new_output("stream", name="stdout", text="1.4: passed\n")
    notebook = new_notebook(cells=[new_code_cell("a", outputs=[*outputs, printed])])
    assert grade.check_results(notebook) == [
        ("1.1", "passed", ""),
        ("1.2", "not attempted yet", ""),
        ("1.3", "not yet right", "row 0: still 1"),
    ]


def test_an_exercise_needs_one_check(source):
    solved = solved_notebook(source)
    assert [each.name for each in exercises_of(solved)] == ["L9.1", "L9.2"]
    with pytest.raises(ValueError, match="cell 2 has a solution and 0 checks"):
        exercises_of(edited(solved, 'check("L9.1", largest, finds_it)', ""))


def test_answers_replace_stubs_and_nothing_else(source):
    solved = solved_notebook(source)
    pristine = without_solutions(solved)
    built = assemble(pristine, solved, answered(source, RIGHT), without=["L9.2"])
    texts = {cell.metadata.get("exercise"): cell.source for cell in built.notebook.cells if "def " in cell.source}
    assert "max(values)" in "".join(c.source for c in built.notebook.cells)
    assert "0.5" not in "".join(texts.values())
    assert built.notebook.cells[1].source == pristine.cells[1].source
