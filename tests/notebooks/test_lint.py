"""The rules of the book's notebooks, and that each rule finds what it is for."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.grade import check_results
from tools.notebooks import RUNS
from tools.pipeline import lint
from tools.pipeline.products import ROOT, all_products
from tools.pipeline.source import BEGIN

PRODUCTS = [product for product in all_products() if product.notebook.exists()]
CHAPTERS = [product for product in PRODUCTS if product.name.startswith("chapters/")]
ASSESSMENTS = [product for product in PRODUCTS if product.name.startswith("assessments/")]
NAME = {"ids": lambda product: product.name}


@pytest.mark.parametrize("product", PRODUCTS, **NAME)
@pytest.mark.parametrize("rule", [lint.code, lint.text, lint.outputs, lint.figures], ids=lambda rule: rule.__name__)
def test_a_notebook_keeps_the_rule(product, rule, read):
    assert rule(read(product.notebook)) == []


@pytest.mark.parametrize("product", CHAPTERS, **NAME)
def test_a_chapter_has_its_parts_in_order(product, read):
    assert lint.skeleton(read(product.notebook)) == []


@pytest.mark.parametrize("product", ASSESSMENTS, **NAME)
def test_an_assessment_has_its_parts(product, read):
    assert lint.assessment(read(product.notebook)) == []


@pytest.mark.parametrize("product", PRODUCTS, **NAME)
def test_a_notebook_is_small(product, read):
    size, limit = product.notebook.stat().st_size, lint.size_limit(read(product.notebook))
    assert size <= limit, f"{size / 1e6:.2f} MB, at most {limit / 1e6:.1f}"


@pytest.mark.parametrize("product", PRODUCTS, **NAME)
def test_a_notebook_ran_within_its_budget(product):
    run = json.loads(RUNS.read_text("utf8"))[product.name]
    assert run["cpu_seconds"] <= lint.SECONDS, "too slow: cache a part of it, or make it cheaper"
    assert run["peak_mb"] is None or run["peak_mb"] <= lint.PEAK_MB


def test_all_notebooks_together_ran_within_their_budget():
    assert sum(run["cpu_seconds"] for run in json.loads(RUNS.read_text("utf8")).values()) <= lint.ALL_SECONDS


@pytest.mark.parametrize("product", [p for p in PRODUCTS if p not in CHAPTERS], **NAME)
def test_a_students_copy_is_untouched_and_a_solution_passes(product, read):
    statuses = {status for _, status, _ in check_results(read(product.notebook))}
    assert statuses == ({"passed"} if product.solved else {"not attempted yet"})


@pytest.mark.parametrize("product", [p for p in PRODUCTS if not p.solved], **NAME)
def test_a_students_copy_holds_no_solution(product):
    assert BEGIN not in product.notebook.read_text("utf8")


def test_copy_and_solution_have_the_same_checks(read):
    for product in PRODUCTS:
        if product.solved:
            student = ROOT / product.notebook.parent.parent.relative_to(ROOT) / product.notebook.name
            names = [[name for name, *_ in check_results(read(path))] for path in (student, product.notebook)]
            assert names[0] == names[1], product.name


def cell(source: str, **metadata):
    return new_code_cell(source, metadata=metadata, execution_count=1)


def picture(**settings):
    drawn = cell("draw()", mystnb=settings)
    drawn.outputs = [new_output("display_data", data={"image/png": "AAAA"})]
    return drawn


GOOD = {"image": {"alt": "A line."}, "figure": {"caption": "It rises."}}


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (cell("\n".join(["a = 1"] * 26)), "26 lines"),
        (cell("!ls"), "shell or magic"),
        (cell("%pip install torch"), "shell or magic"),
        (cell("from torch import *"), "imports everything"),
        (cell("import sys\nsys.path.append('..')"), "sys.path"),
        (cell("a = 'https://host.invalid'"), "web address"),
        (cell("a = 1", tags=["nbval-ignore-output"]), "not be compared"),
        (cell("# NBVAL_SKIP\na = 1"), "switches"),
    ],
)
def test_a_broken_code_cell_is_found(broken, complaint):
    (found,) = lint.code(new_notebook(cells=[broken]))
    assert complaint in found


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        (new_output("stream", name="stderr", text="careful"), "stderr"),
        (new_output("stream", name="stdout", text="/root/x"), "path of this machine"),
        (new_output("display_data", data={"text/html": "<p>/home/me/x</p>"}), "path of this machine"),
        (new_output("display_data", data={"text/plain": "<Axes at 0x7f00aa12bb>"}), "address of an object"),
        (new_output("error", ename="ValueError", evalue=""), "ValueError"),
    ],
)
def test_a_broken_output_is_found(output, complaint):
    broken = cell("a")
    broken.outputs = [output]
    (found,) = lint.outputs(new_notebook(cells=[broken]))
    assert complaint in found


@pytest.mark.parametrize(
    ("lost", "fine"),
    [
        ("Of the heads 90\n% are left.", "90 %\nare left."),
        ("It begins in layer\n1. It ends there.", "Two:\n\n1. a\n2. b"),
    ],
)
def test_a_line_that_the_page_would_read_otherwise_is_found(lost, fine):
    (found,) = lint.text(new_notebook(cells=[new_markdown_cell(lost), new_markdown_cell(fine), new_code_cell("%")]))
    assert lost.splitlines()[1] in found


def test_a_cell_that_was_not_run_is_found():
    assert lint.outputs(new_notebook(cells=[new_code_cell("a")])) == ["code cell 1 has execution count None"]


@pytest.mark.parametrize(
    ("cells", "complaints"),
    [
        ([picture(**GOOD), cell("assert a")], []),
        ([picture(**GOOD), cell("def test(a):\n    assert a")], ["assertion"]),
        ([picture(**GOOD), cell("a"), cell("a"), cell("assert a")], ["assertion"]),
        ([picture(figure=GOOD["figure"]), cell("assert a")], ["alt text"]),
        ([picture(image=GOOD["image"]), cell("if a:\n    assert a")], ["caption"]),
    ],
)
def test_a_picture_needs_alt_caption_and_an_assertion(cells, complaints):
    found = lint.figures(new_notebook(cells=cells))
    assert len(found) == len(complaints)
    assert all(word in text for word, text in zip(complaints, found, strict=True))


def test_a_named_figure_stands_alone_among_the_outputs():
    shown = picture(figure=GOOD["figure"] | {"name": "fig-a"}, image=GOOD["image"])
    assert lint.figures(new_notebook(cells=[shown, cell("assert a")])) == []
    shown.outputs.append(new_output("execute_result", data={"text/html": "<table></table>"}))
    (found,) = lint.figures(new_notebook(cells=[shown, cell("assert a")]))
    assert "more than its figure" in found


@pytest.mark.parametrize("tag", ["curve-explorer", "budget-planner"])
def test_an_interactive_figure_needs_an_assertion(tag):
    shown = cell("figure(a)")
    shown.outputs = [new_output("execute_result", data={"text/html": f"<{tag}></{tag}>"})]
    assert len(lint.figures(new_notebook(cells=[shown]))) == 1
    assert lint.figures(new_notebook(cells=[cell("assert a"), shown])) == []


def chapter(sections=lint.SECTIONS) -> nbformat.NotebookNode:
    """The least that has every part of a chapter."""
    body = [new_markdown_cell(f"## {name}") for name in sections]
    code = ["check(a)"] * 2 + ["figures.quiz_card(a)"] * 3 + ["claims.record(a)", "curve_explorer(a)"] + ["a"] * 12
    start = [new_markdown_cell("# Title"), cell("claims.card(1)"), *body, new_markdown_cell(":::{div} predict")]
    return new_notebook(cells=start + [cell(source) for source in code])


def test_a_whole_chapter_passes():
    assert lint.skeleton(chapter()) == []


def test_each_missing_part_of_a_chapter_is_found():
    swapped = ("Where this breaks", "Objectives", *lint.SECTIONS[2:])
    assert "in this order" in " ".join(lint.skeleton(chapter(swapped)))
    for word, complaint in {
        "# Title": "title",
        "claims.card(1)": "claim card",
        "predict": "commit to",
        "check(a)": "calls of check",
        "figures.quiz_card(a)": "calls of quiz_card",
        "claims.record(a)": "calls of record",
        "curve_explorer(a)": "interactive",
    }.items():
        broken = chapter()
        for each in broken.cells:
            each.source = each.source.replace(word, "a") if word in each.source else each.source
        assert any(complaint in found for found in lint.skeleton(broken)), word


def assessment() -> nbformat.NotebookNode:
    """The least that has every part of an assessment."""
    card = "**Exercise A** · difficulty 1/5 · about 5 minutes"
    goal = "## Objectives\n" + " ".join(f"**{word}**" for word in lint.ABCD)
    rubric = "## Rubric\n| | 0 points | 1 point | 2 points |"
    parts = ["# Title", goal, ":::{div} predict", *[card] * 3, rubric, "## References"]
    return new_notebook(cells=[*map(new_markdown_cell, parts), *(cell("check(a)") for _ in range(3))])


def test_a_whole_assessment_passes():
    assert lint.assessment(assessment()) == []


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("# Title", "title"),
        ("## Rubric", "in this order"),
        ("**Degree**", "do not say: Degree"),
        ("0 points", "no table with points"),
        ("predict", "commit to"),
        ("check(a)", "0 checks and 3 exercise cards"),
        ("minutes", "difficulty and minutes"),
    ],
)
def test_each_missing_part_of_an_assessment_is_found(word, complaint):
    broken = assessment()
    for each in broken.cells:
        each.source = each.source.replace(word, "a")
    assert any(complaint in found for found in lint.assessment(broken))


def test_a_large_explorer_may_be_larger():
    assert lint.size_limit(chapter()) == 1e6
    assert lint.size_limit(new_notebook(cells=[cell("a", explorer=128)])) == 2.5e6
