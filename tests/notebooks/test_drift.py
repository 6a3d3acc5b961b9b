"""Every notebook is what its source, its helpers and its data make today."""

from __future__ import annotations

import ast
import json

import pytest

from tools.pipeline import digest
from tools.pipeline.products import KINDS, ROOT, all_products

PRODUCTS = all_products()
NAME = {"ids": lambda product: product.name}


def test_there_are_notebooks():
    assert PRODUCTS


@pytest.mark.parametrize("product", PRODUCTS, **NAME)
def test_a_notebook_is_up_to_date(product):
    reasons = digest.stale(product)
    command = f'make notebooks NAMES="{product.name}"  (or: python -m tools.notebooks {product.name})'
    assert not reasons, f"{product.name}: {'; '.join(reasons)}. Run: {command}"


@pytest.mark.parametrize("product", PRODUCTS, **NAME)
def test_a_digest_covers_the_helpers_that_its_source_imports(product):
    assert product.digest.exists(), "there is no digest: run make notebooks"
    inputs = json.loads(product.digest.read_text("utf8"))["inputs"]
    for node in ast.walk(ast.parse(product.source.read_text("utf8"))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "utils":
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            files = [f"{name.replace('.', '/')}{end}" for name in names for end in (".py", "/__init__.py")]
            missing = [file for file in files if (ROOT / file).is_file() and file not in inputs]
            assert missing == []


@pytest.mark.parametrize("product", PRODUCTS, **NAME)
def test_a_changed_helper_makes_a_notebook_stale(product, monkeypatch):
    helper = [name for name in json.loads(product.digest.read_text("utf8"))["inputs"] if name.startswith("utils/")][-1]
    real = digest.sha256
    monkeypatch.setattr(digest, "sha256", lambda path: "other" if path == ROOT / helper else real(path))
    assert f"{helper} changed" in digest.stale(product)


def test_no_notebook_is_left_without_a_source():
    known = {product.notebook for product in PRODUCTS} | {product.digest for product in PRODUCTS}
    found = {path for kind in KINDS for end in ("ipynb", "digest.json") for path in (ROOT / kind).rglob(f"*.{end}")}
    assert {path for path in found - known if ".ipynb_checkpoints" not in path.parts} == set()
