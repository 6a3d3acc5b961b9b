"""Student copies and grading."""

from __future__ import annotations

import csv
import re
import zipfile

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools import grade, student
from tools.pipeline.normalise import write
from tools.pipeline.source import solved_notebook, without_solutions


def test_the_students_zip_holds_no_solution(tmp_path):
    files = student.contents()
    student.pack(files, tmp_path / "copy.zip")
    with zipfile.ZipFile(tmp_path / "copy.zip") as archive:
        names = archive.namelist()
        assert not [n for n in names if "/source/" in n or "/solutions/" in n or "/tests/" in n]
        assert {"attention-insights/requirements.txt", "attention-insights/utils/exercises.py"} <= set(names)
        assert not [n for n in names if n.endswith(".ipynb") and b"BEGIN SOLUTION" in archive.read(n)]


def test_the_students_readme_names_only_what_the_zip_holds(tmp_path):
    student.pack(student.contents(), tmp_path / "copy.zip")
    with zipfile.ZipFile(tmp_path / "copy.zip") as archive:
        readme = archive.read("attention-insights/README.md").decode("utf8")
        names = archive.namelist()
    folders = set(re.findall(r"`(\w+/)`", readme))
    assert "make " not in readme and {"labs/", "chapters/"} <= folders
    assert [f for f in folders if not any(n.startswith(f"attention-insights/{f}") for n in names)] == []


def test_the_same_content_gives_the_same_zip(tmp_path):
    for name in ("a.zip", "b.zip"):
        student.pack(student.contents()[:5], tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_a_notebook_with_a_solution_is_refused(small_source, tmp_path):
    write(solved_notebook(small_source), tmp_path / "leak.ipynb")
    with pytest.raises(ValueError, match="holds a solution"):
        student.pack([tmp_path / "leak.ipynb"], tmp_path / "copy.zip", root=tmp_path)


def test_results_of_checks_are_read_from_outputs():
    texts = ["1.1: passed", "1.2: not attempted yet", "1.3: not yet right – row 0: still 1", "loss: passed it", "3"]
    outputs = [new_output("execute_result", data={"text/plain": text}) for text in texts]
    printed = new_output("stream", name="stdout", text="1.4: passed\n")
    notebook = new_notebook(cells=[new_code_cell("a", outputs=[*outputs, printed])])
    assert grade.check_results(notebook) == [
        ("1.1", "passed", ""),
        ("1.2", "not attempted yet", ""),
        ("1.3", "not yet right", "row 0: still 1"),
        ("1.4", "passed", ""),
    ]


def test_a_folder_of_notebooks_becomes_a_table(small_source, tmp_path, capsys):
    solved = solved_notebook(small_source)
    write(solved, tmp_path / "ada" / "small.ipynb")
    broken = without_solutions(solved)
    broken.cells[2].source = "1 / 0"
    write(broken, tmp_path / "bob" / "small.ipynb")
    (tmp_path / "cleo.ipynb").write_text("not a notebook")
    assert grade.main([str(tmp_path), "--out", str(tmp_path / "grades.csv")]) == 0
    with (tmp_path / "grades.csv").open(encoding="utf8") as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file)]
    assert rows[:3] == [
        ("ada/small.ipynb", "0.1", "passed", ""),
        ("bob/small.ipynb", "0.1", "not attempted yet", ""),
        ("bob/small.ipynb", "", "a cell stopped", "ZeroDivisionError: division by zero"),
    ]
    assert rows[3][:3] == ("cleo.ipynb", "", "did not run to its end")


def test_no_file_however_broken_keeps_the_others_from_the_table(small_source, tmp_path):
    write(solved_notebook(small_source), tmp_path / "zoe.ipynb")
    broken = {
        "cut": b'{"cells": [',
        "empty": b"",
        "list": b"[]",
        "keys": b'{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[{"cell_type":"code"}]}',
        "bytes": b'{"cells":[],"metadata":{"a":"\xff"},"nbformat":4,"nbformat_minor":5}',
    }
    for name, content in broken.items():
        (tmp_path / f"{name}.ipynb").write_bytes(content)
    (tmp_path / "folder.ipynb").mkdir()
    without = solved_notebook(small_source)
    without.cells = []
    write(without, tmp_path / "nothing.ipynb")
    assert grade.main([str(tmp_path), "--out", str(tmp_path / "grades.csv")]) == 0
    with (tmp_path / "grades.csv").open(encoding="utf8") as file:
        found = {row["notebook"]: row["status"] for row in csv.DictReader(file)}
    assert found == {f"{name}.ipynb": "did not run to its end" for name in [*broken, "folder"]} | {
        "nothing.ipynb": "no check in it",
        "zoe.ipynb": "passed",
    }
