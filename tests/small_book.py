"""A copy of the book with three small pages, for tests of configurations: builds in seconds."""

from __future__ import annotations

import base64
import io
import os
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from tools.book import JUPYTER_BOOK
from tools.pipeline.source import KERNEL, LANGUAGE
from tools.site_pages import ROOT

INDEX = """# A small book

It has a first sentence of some length, so that it can be described.

<span class="build-commit"></span>
"""
FORMULA = """# A formula

Of $x$ this paragraph says a lot, but it has a formula, which no description shows well.

The mean of all rows is the mean of the columns of the transposed matrix.
"""


def published(text: str, address: str = "") -> str:
    """_config.yml as pages/publishing.md says: the block of launch links without its ``#``, names put in."""
    head, block = text.split("      # To publish:", 1)
    lines = re.sub(r"^(\s+)# ((?:\w+: |html_baseurl).*)$", r"\1\2", block, flags=re.MULTILINE)
    if not address:
        lines = re.sub(r"^\s+html_baseurl:.*\n", "", lines, flags=re.MULTILINE)
    lines = lines.replace("https://OWNER.github.io/NAME/", address).replace("https://HUB", "https://hub.example.edu")
    return head + "      # To publish:" + lines.replace("OWNER/NAME", "someone/course")


def notebook() -> nbformat.NotebookNode:
    """Two figures and a formula, as a chapter has them."""
    cells = [new_markdown_cell("# A notebook\n\nIts *first* paragraph is long enough to describe the page on its own.")]
    for colour in ("red", "blue"):
        file = io.BytesIO()
        Image.new("RGB", (300, 200), colour).save(file, "PNG")
        data = {"image/png": base64.b64encode(file.getvalue()).decode()}
        metadata = {"mystnb": {"image": {"alt": f"A {colour} ground."}}}
        output = new_output("display_data", data=data)
        cells.append(new_code_cell("draw()", metadata=metadata, outputs=[output], execution_count=1))
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL, "language_info": LANGUAGE})


def make(folder: Path, config: str) -> Path:
    """Build the small book with a text of _config.yml; the folder with its pages."""
    for name in ("assets", "templates"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pages", "chapters", "tools"):
        (folder / name).mkdir()
    shutil.copytree(ROOT / "tools" / "site", folder / "tools" / "site")
    for name in ("tools/__init__.py", "tools/icons.py", "pages/references.bib"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "_config.yml").write_text(config, encoding="utf8")
    toc = "format: jb-book\nroot: index\nchapters:\n- file: chapters/small\n- file: pages/formula\n"
    (folder / "_toc.yml").write_text(toc, encoding="utf8")
    (folder / "index.md").write_text(INDEX, encoding="utf8")
    (folder / "pages" / "formula.md").write_text(FORMULA, encoding="utf8")
    nbformat.write(notebook(), folder / "chapters" / "small.ipynb")
    command = [*JUPYTER_BOOK, "build", ".", "-W", "-n", "--keep-going"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder / "_build" / "html"
