"""From source to notebook, on a small example."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools import notebooks
from tools.pipeline import digest
from tools.pipeline.execute import NotebookError, execute
from tools.pipeline.normalise import normalise, write
from tools.pipeline.products import Product, products_of, select
from tools.pipeline.source import has_solution, solved_notebook, without_solutions


def test_a_solution_becomes_a_stub_and_nothing_else_changes(small_source):
    solved = solved_notebook(small_source)
    stubbed = without_solutions(solved)
    changed = [a.id for a, b in zip(solved.cells, stubbed.cells, strict=True) if a.source != b.source]
    assert changed == [cell.id for cell in solved.cells if has_solution(cell)] == ["01-small-04"]
    assert "masked_fill" not in stubbed.cells[4].source
    assert "raise NotImplementedError" in stubbed.cells[4].source


def test_metadata_of_a_cell_survives_the_text_format(small_source):
    cells = solved_notebook(small_source).cells
    assert cells[2].metadata == {"tags": ["claim"]}
    assert cells[3].metadata["mystnb"]["image"]["alt"] == "A 3 by 3 heat map."


def test_two_runs_give_the_same_bytes(small_source, small_run, tmp_path):
    again = execute(without_solutions(solved_notebook(small_source)), tmp_path)
    write(normalise(again.notebook), tmp_path / "again.ipynb")
    write(small_run.notebook, tmp_path / "first.ipynb")
    assert (tmp_path / "again.ipynb").read_bytes() == (tmp_path / "first.ipynb").read_bytes()


def test_a_run_knows_the_helpers_it_used_and_its_cost(small_run):
    assert small_run.files == ["utils/__init__.py", "utils/exercises.py"]
    assert small_run.seconds > small_run.cpu_seconds > 0
    assert small_run.peak_mb is None or small_run.peak_mb > 50


def test_counts_run_from_one_and_what_changes_is_gone(small_run):
    code = [cell for cell in small_run.notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4]
    assert code[3].outputs[0].execution_count == 4
    assert code[3].outputs[0].data["text/plain"] == "0.1: not attempted yet"
    assert "version" not in small_run.notebook.metadata.language_info
    assert all("execution" not in cell.metadata for cell in code)


def test_printing_to_stderr_is_an_error_that_shows_the_cell():
    cell = new_code_cell("warn()", outputs=[new_output("stream", name="stderr", text="careful")])
    with pytest.raises(NotebookError, match=r"stderr(.|\n)*warn\(\)(.|\n)*careful"):
        normalise(new_notebook(cells=[cell]))


def test_widgets_leave_no_state_and_pieces_of_one_print_are_joined():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "IntSlider()"}
    pieces = [new_output("stream", name="stdout", text=text) for text in ("a", "b\n")]
    cell = new_code_cell("show()", outputs=[*pieces, new_output("display_data", data=view)])
    notebook = normalise(new_notebook(cells=[cell], metadata={"widgets": {"state": {}}}))
    assert [output.get("text") for output in cell.outputs] == ["ab\n", None]
    assert cell.outputs[1].data == {"text/plain": "IntSlider()"}
    assert "widgets" not in notebook.metadata


def test_a_failing_cell_stops_the_run_and_is_named(tmp_path):
    with pytest.raises(NotebookError, match="ZeroDivisionError"):
        execute(new_notebook(cells=[new_code_cell("1 / 0")]), tmp_path)


@pytest.mark.parametrize("kind", ["labs", "assessments"])
def test_a_lab_gives_two_notebooks_and_a_chapter_one(tmp_path, kind):
    lab = tmp_path / "source" / kind / "1_seeing_attention.py"
    names = [(product.name, product.solved) for product in products_of(lab, tmp_path)]
    assert names == [(f"{kind}/1-seeing-attention.ipynb", False), (f"{kind}/solutions/1-seeing-attention.ipynb", True)]
    chapter = tmp_path / "source" / "chapters" / "01_a_b.py"
    assert [product.name for product in products_of(chapter, tmp_path)] == ["chapters/01-a-b.ipynb"]
    with pytest.raises(ValueError, match="source lies in"):
        products_of(tmp_path / "source" / "pages" / "x.py", tmp_path)


def test_a_name_that_matches_nothing_lists_what_there_is(tmp_path):
    products = products_of(tmp_path / "source" / "labs" / "1_x.py", tmp_path)
    assert select(["labs/1"], products) == products
    with pytest.raises(ValueError, match=r"labs/1-x\.ipynb"):
        select(["labs/2"], products)


@pytest.fixture
def made(tmp_path) -> Product:
    """A notebook with its digest in a folder of its own, made from a helper and from data."""
    contents = {
        "source/chapters/01_x.py": "# %%\n1\n",
        "requirements.txt": "torch==0\n",
        "utils/helper.py": "a = 1\n",
        "utils/other.py": "b = 1\n",
        "data/words.txt": "one\n",
        "data/model/config.json": "{}\n",
        "data/model/weights.bin": "0\n",
        "data/sweeps/read.json": "{}\n",
        "data/sweeps/other.json": "{}\n",
        "chapters/01-x.ipynb": "{}\n",
    }
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (product,) = products_of(tmp_path / "source" / "chapters" / "01_x.py", tmp_path)
    opened = ["utils/helper.py", "data/words.txt", "data/model/config.json", "chapters/01-x.ipynb", "README.md"]
    opened.append("data/sweeps/read.json")
    digest.save(product, opened)
    return product


def test_a_fresh_notebook_is_up_to_date(made):
    assert digest.stale(made) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("utils/helper.py", "utils/helper.py changed"),
        ("data/words.txt", "data/words.txt changed"),
        ("data/model/weights.bin", "data/model changed"),
        ("data/model/new.bin", "data/model changed"),
        ("data/sweeps/read.json", "data/sweeps/read.json changed"),
        ("source/chapters/01_x.py", "source/chapters/01_x.py changed"),
        ("requirements.txt", "requirements.txt changed"),
        ("chapters/01-x.ipynb", "it was edited by hand"),
    ],
)
def test_a_change_of_what_a_notebook_was_made_from_is_seen(made, name, reason):
    with (made.root / name).open("a") as file:
        file.write("# changed\n")
    assert digest.stale(made) == [reason]


@pytest.mark.parametrize("name", ["utils/other.py", "data/sweeps/other.json"])
def test_a_file_that_a_notebook_does_not_use_may_change(made, name):
    (made.root / name).write_text("b = 2\n")
    assert digest.stale(made) == []


@pytest.mark.parametrize("name", ["source/chapters/01_x.py", "utils/helper.py", "data/model/weights.bin"])
def test_what_changed_while_a_notebook_ran_makes_it_stale(made, name):
    began = time.time()
    opened = ["utils/helper.py", "data/model/config.json"]
    for path in made.root.rglob("*"):
        os.utime(path, (began - 10, began - 10))
    digest.save(made, opened, began)
    assert digest.stale(made) == []
    os.utime(made.root / name, (began + 1, began + 1))
    digest.save(made, opened, began)
    assert digest.stale(made) == [f"{'data/model' if name.startswith('data') else name} changed"]


def test_a_helper_that_is_gone_is_named(made):
    (made.root / "utils" / "helper.py").unlink()
    assert digest.stale(made) == ["utils/helper.py is gone"]


def test_only_what_changed_is_run_again(made, monkeypatch, capsys):
    built = []
    monkeypatch.setattr(notebooks, "all_products", lambda: [made])
    monkeypatch.setattr(
        notebooks, "build", lambda p: built.append(p) or SimpleNamespace(seconds=1.0, cpu_seconds=1.0, peak_mb=1)
    )
    monkeypatch.setattr(notebooks, "note_run", lambda product, run: None)
    monkeypatch.setattr(notebooks, "refresh_pages", lambda: None)
    assert notebooks.main([]) == 0
    assert built == []
    (made.root / "utils" / "helper.py").write_text("a = 2\n")
    assert notebooks.main(["--check"]) == 1
    assert "utils/helper.py changed" in capsys.readouterr().out
    assert built == []
    assert notebooks.main([]) == 0
    assert built == [made]


def test_run_times_are_kept_for_the_notebooks_that_exist(made, monkeypatch, tmp_path):
    monkeypatch.setattr(notebooks, "RUNS", tmp_path / "runs.json")
    monkeypatch.setattr(notebooks, "all_products", lambda: [made])
    (tmp_path / "runs.json").write_text('{"chapters/99-gone.ipynb": {"seconds": 1}}')
    notebooks.note_run(made, SimpleNamespace(seconds=1.26, cpu_seconds=1.0, peak_mb=200))
    stored = json.loads((tmp_path / "runs.json").read_text())
    assert list(stored) == ["chapters/01-x.ipynb"]
    assert stored["chapters/01-x.ipynb"]["seconds"] == 1.3


def test_a_written_notebook_reads_back(small_run, tmp_path):
    write(small_run.notebook, tmp_path / "sub" / "small.ipynb")
    assert nbformat.read(tmp_path / "sub" / "small.ipynb", as_version=4) == small_run.notebook
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["small.ipynb"]
