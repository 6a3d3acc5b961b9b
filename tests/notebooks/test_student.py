"""Student copies."""

from __future__ import annotations

import re
import zipfile

import pytest

from tools import student
from tools.pipeline.normalise import write
from tools.pipeline.source import solved_notebook


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
