"""The code on the pages for instructors and contributors runs, block after block, as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.run_tests import PARTS

PAGES = Path(__file__).resolve().parents[2] / "pages"
COLUMNS = 82  # of code that a wide page shows without scrolling


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run the python blocks of a page in a folder of their own; returns their names."""

    def blocks_of(page: str) -> dict[str, object]:
        blocks = re.findall(r"^```python\n(.*?)^```", (PAGES / page).read_text("utf8"), re.MULTILINE | re.DOTALL)
        assert blocks, f"{page} has no code"
        names: dict[str, object] = {"__name__": "page"}
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path_factory.mktemp("page"))
            assert [line for line in "".join(blocks).splitlines() if len(line) > COLUMNS] == []
            for block in blocks:
                exec(compile(block, page, "exec"), names)
        return names

    return blocks_of


def test_the_code_on_adapting_runs(run):
    names = run("adapting.md")
    assert names["first"].weights.shape[:2] == (6, 12)
    assert names["null"].normalized_entropy.min() > names["heads"].normalized_entropy.mean()
    assert len(names["effects"]) == 2 and len(names["scores"]) == 72
    assert set(names["plans"].fits) == {True, False}  # a budget in which something is decided
    assert names["result"].status == "passed"


def test_the_code_on_contributing_runs(run):
    names = run("contributing.md")
    assert len(names["ledger"]["insights"]) >= 12 and len(names["MEASURED"]) == 3
    assert isinstance(names["stale"], dict) and "T5Attention" in names["LAYOUTS"]
    assert "quiz-card" in names["card"].html()


def test_the_budgets_on_contributing_are_those_of_the_tests():
    table = (PAGES / "contributing.md").read_text("utf8").split("| Part | What | Budget, s |")[1].split("\n\n")[0]
    said = {cells[1].strip(): int(cells[3]) for cells in (line.split("|") for line in table.splitlines()[2:])}
    assert said == {name: budget for name, (_, budget) in PARTS.items()}


@pytest.mark.parametrize("page", ["adapting.md", "contributing.md", "grading.md"])
def test_files_and_targets_that_a_page_names_are_there(page):
    text = (PAGES / page).read_text("utf8")
    paths = re.findall(r"`((?:data|source|tests|tools|utils|pages)/[\w./-]*)`", text)
    assert paths and [path for path in paths if not (PAGES.parent / path).exists()] == []
    makefile = (PAGES.parent / "Makefile").read_text("utf8")
    assert set(re.findall(r"`make ([a-z-]+)[ `]", text)) <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    modules = re.findall(r"python -m (tools\.[\w.]+)", text)
    assert [name for name in modules if not list(PAGES.parent.glob(name.replace(".", "/") + "*"))] == []
