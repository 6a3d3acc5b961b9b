"""Strict comparison misses nothing: a changed number makes it fail, and the sanitiser hides none."""

from __future__ import annotations

import copy
import json
import re

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_output
from nbval.plugin import get_sanitize_patterns

from tools.pipeline.normalise import write
from tools.pipeline.products import all_products
from tools.pipeline.strict import SANITIZE, nbval
from utils.figures import Figure

PRODUCTS = [product for product in all_products() if product.notebook.exists()]
NUMBER = re.compile(r"\d+")
NOT_COMPARED = ("image/png", "image/jpeg")
CODED = re.compile(
    r'"base64":"[A-Za-z0-9+/=]*"|data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+|0x[0-9a-f]{6,16}|/tmp/ipykernel_\d+/\d+\.py'
)
FIGURE = """
import numpy as np
from utils.figures import Figure
Figure("rank-explorer", {}, "a curve", arrays={"curve": np.array([0.501])})
"""


def sanitize(text: str) -> str:
    """As nbval does it."""
    for pattern, replacement in get_sanitize_patterns(SANITIZE.read_text("utf8")):
        text = re.sub(pattern, replacement, text)
    return text


def other(digits: str) -> str:
    """A number of the same length that differs in its last digit."""
    return digits[:-1] + str((int(digits[-1]) + 1) % 10)


def stored_texts(notebook) -> list[str]:
    """Every text that nbval compares, JSON outputs included."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [value for o in outputs for kind, value in o.get("data", {}).items() if kind not in NOT_COMPARED]
    return [o.text for o in outputs if "text" in o] + [v if isinstance(v, str) else json.dumps(v) for v in data]


def hidden_numbers(text: str) -> list[str]:
    """Numbers outside coded payloads whose change the sanitiser would hide, with what stands around them."""
    coded = [match.span() for match in CODED.finditer(text)]
    hidden = []
    for match in NUMBER.finditer(text):
        if any(start <= match.start() < end for start, end in coded):
            continue
        around = slice(max(0, match.start() - 200), match.end() + 200)
        before, after = (
            text[around],
            text[around.start : match.start()] + other(match.group()) + text[match.end() : around.stop],
        )
        if sanitize(before) == sanitize(after):
            hidden.append(text[max(0, match.start() - 30) : match.end() + 30])
    return hidden


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda product: product.name)
def test_the_sanitiser_hides_no_number_of_a_notebook(product, read):
    assert [h for text in stored_texts(read(product.notebook)) for h in hidden_numbers(text)] == []


@pytest.mark.parametrize(
    ("text", "hidden"),
    [("accuracy 0.93125", False), ("<b>12</b> heads", False), ('"shape":[6,12]', False), ("1e-06", False)],
)
def test_numbers_are_compared(text, hidden):
    assert bool(hidden_numbers(text)) == hidden


def test_what_may_differ_is_hidden():
    assert sanitize("<object at 0x7f00aa12bb>") == sanitize("<object at 0x7f00aa12cc>")
    assert sanitize('{"base64":"AAA=","shape":[3]}') == sanitize('{"base64":"AAB=","shape":[3]}')
    assert sanitize('{"base64":"AAA=","shape":[3]}') != sanitize('{"base64":"AAA=","shape":[4]}')


@pytest.fixture(scope="module")
def report(small_run, tmp_path_factory) -> str:
    """What strict nbval says of the small notebook, of one with a changed number a cell, and of one that connects."""
    folder = tmp_path_factory.mktemp("strict")
    write(small_run.notebook, folder / "same.ipynb")
    changed = copy.deepcopy(small_run.notebook)
    changed.cells[1].outputs[0].text = NUMBER.sub(lambda m: other(m.group()), changed.cells[1].outputs[0].text)
    changed.cells[3].outputs[0].data["text/plain"] = "<Figure size 201x200 with 1 Axes>"
    changed.cells[4].outputs[0].data["text/plain"] = "0.2: not attempted yet"
    write(changed, folder / "changed.ipynb")
    connects = copy.deepcopy(small_run.notebook)
    source = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    connects.cells = [new_code_cell(source, id="connects", execution_count=1)]
    write(connects, folder / "connects.ipynb")
    return nbval("-rA", "-p", "no:xdist", folder, capture=True).stdout


def test_the_same_outputs_pass(report):
    assert [f"PASSED {name}" in report for name in cells_of(report, "same")] == [True] * 4


def test_each_changed_number_fails(report):
    verdicts = [re.search(rf"(PASSED|FAILED) {re.escape(name)}", report)[1] for name in cells_of(report, "changed")]
    assert verdicts == ["FAILED", "PASSED", "FAILED", "FAILED"]  # the second cell, an assertion, shows nothing
    assert "the texts differ at character" in report


def test_strict_comparison_runs_behind_the_guard(report):
    assert "ConnectionRefusedByGuard" in report


@pytest.fixture(scope="module")
def chapter_report(small_run, small_source, tmp_path_factory) -> str:
    """What strict nbval says of a chapter with a right and a wrong solution and a right and a wrong figure."""
    root = tmp_path_factory.mktemp("book")
    for folder in ("chapters", "source/chapters"):
        (root / folder).mkdir(parents=True)
    text = small_source.read_text("utf8")
    begin = text.index("# %%\ndef mask_future")
    wrong = text[begin:].replace("triu(1)", "triu(2)")
    (root / "source" / "chapters" / "01_small.py").write_text(f"{text}\n\n{wrong}", encoding="utf8")
    notebook = copy.deepcopy(small_run.notebook)
    for stored in (0.5, 0.6):  # the cell gives 0.501
        bundle = Figure("rank-explorer", {}, "a curve", arrays={"curve": np.array([stored])})._repr_mimebundle_()
        output = new_output("execute_result", bundle, execution_count=5)
        notebook.cells.append(new_code_cell(FIGURE, id=f"shows-{10 * stored:.0f}", execution_count=5, outputs=[output]))
    write(notebook, root / "chapters" / "01-small.ipynb")
    return nbval("-rA", "-p", "no:xdist", root / "chapters", capture=True).stdout


def test_solutions_of_a_chapter_run_after_it_and_must_pass(chapter_report):
    assert verdict(chapter_report, "Solution 1") == "PASSED"
    assert verdict(chapter_report, "Solution 2") == "FAILED"
    assert "row 0 still sees token 1" in chapter_report


def test_coded_numbers_of_a_figure_are_compared_with_tolerance(chapter_report):
    assert [verdict(chapter_report, f"Cell {number}") for number in (4, 5)] == ["PASSED", "FAILED"]
    assert "coded numbers 'curve'" in chapter_report


def verdict(report: str, name: str) -> str:
    return re.search(rf"(PASSED|FAILED) \S*::{name}\b", report)[1]


def cells_of(report: str, stem: str) -> list[str]:
    """The names of a notebook's cells in the summary, in order."""
    return sorted(set(re.findall(rf"(?:PASSED|FAILED) (\S*{stem}\.ipynb::Cell \d+)", report)))
