"""The page on grading says what the tools do: statuses, limits, numbers of checks, and messages as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import grade, student
from tools.answers import exercises_of
from tools.pipeline.products import all_products
from tools.pipeline.source import solved_notebook
from utils.exercises import NOT_ATTEMPTED, NOT_YET, PASSED

PAGE = (Path(__file__).resolve().parents[2] / "pages" / "grading.md").read_text("utf8")
MARKED = [product for product in all_products() if not product.solved and not product.name.startswith("chapters/")]


def test_each_status_of_the_table_is_explained():
    table = PAGE.split("| Status | Meaning |")[1].split("\n\n")[0]
    said = {line.split("|")[1].strip() for line in table.splitlines()[2:]}
    assert said == {PASSED, NOT_YET, NOT_ATTEMPTED, grade.STOPPED, grade.REMARK, grade.UNREADABLE, grade.UNKNOWN}


def test_limits_and_files_are_those_of_the_tools():
    assert f"({grade.LIMITS.seconds} s and {grade.LIMITS.gigabytes:.0f} GB)" in PAGE
    assert student.TARGET.relative_to(student.ROOT).as_posix() in PAGE


def test_the_tables_have_the_columns_that_are_written():
    assert f"| {' | '.join(grade.Row._fields)} |" in PAGE
    assert f"| {' | '.join(grade.summary(grade.Graded('a', '', [])))} |" in PAGE


@pytest.mark.parametrize("product", MARKED, ids=lambda product: product.name)
def test_the_number_of_checks_is_that_of_the_notebook(product):
    exercises = exercises_of(solved_notebook(product.source))
    optional = product.source.read_text("utf8").count("(optional)")
    row = re.search(rf"\(\.\./{re.escape(product.name)}\) \| (\d+), (\d+) \|", PAGE)
    assert (int(row[1]), int(row[2])) == (len(exercises), optional)


def test_messages_that_are_quoted_can_come():
    sources = "".join(path.read_text("utf8") for path in (student.ROOT / "tools").glob("*.py"))
    chapter = (student.ROOT / "source" / "chapters" / "01_asymmetry.py").read_text("utf8")
    for quoted in ("your W_K is a multiple of W_Q: scale columns apart", "square norms"):
        assert quoted in PAGE and quoted in chapter
    for quoted in ("its check was changed or removed", "was its cell deleted?", "as handed out does not run here"):
        assert quoted in PAGE and quoted in sources
