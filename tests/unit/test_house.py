"""The house: pins agree, the site needs no torch, and the README names what is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import utils

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"([A-Za-z0-9_.-]+)==(\S+)")


def pins(lines: list[str]) -> dict[str, str]:
    """Name, as pip compares names, → version. Every line that names a package must pin it."""
    matches = {line: PIN.fullmatch(line) for line in lines}
    assert [line for line, match in matches.items() if not match] == []
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in matches.values()}


def listed(name: str) -> list[str]:
    """The packages of a requirements file, one a line."""
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text("utf8").splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


@pytest.fixture
def extras() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]["optional-dependencies"]


def test_requirements_begin_with_this_package_and_pin_the_rest(extras):
    assert (ROOT / "requirements.txt").read_text("utf8").startswith("-e .")
    constraints = pins(listed("constraints.txt"))
    direct = pins(listed("requirements.txt")) | pins(extras["site"]) | pins(extras["test"])
    assert {name: version for name, version in direct.items() if constraints.get(name) != version} == {}


def test_the_site_is_installed_and_built_without_torch(extras):
    assert not {"torch", "transformers"} & set(pins(extras["site"]))
    code = "import sys, tools.book, tools.site_pages; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_readme_names_targets_and_folders_that_exist():
    readme, makefile = ((ROOT / name).read_text("utf8") for name in ("README.md", "Makefile"))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)[ `]", readme)) <= targets
    paths = re.findall(r"`((?:\w+/)+|\w+/[\w./-]+)`", readme)
    generated = ("assessments/", "chapters/01-asymmetry.ipynb")
    assert [path for path in paths if path not in generated and not (ROOT / path).exists()] == []


def test_the_code_in_the_readme_runs():
    readme = (ROOT / "README.md").read_text("utf8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["maps"].weights.shape[:2] == (6, 12)
    assert len(names["scores"]) == 72 and "without" in names
    sizes = [sum(tensor.numel() for tensor in names[name].parameters()) for name in ("model", "smaller")]
    assert sizes[0] - sizes[1] == 4 * 384 * 32 + 3 * 32  # rows of W_Q, W_K, W_V with biases, columns of W_O


def test_helpers_come_from_this_folder():
    assert Path(utils.__file__).resolve().parent == ROOT / "utils"
