"""What a notebook was made from, so that a change is seen without running it again.

Beside each notebook lies ``NAME.digest.json``: a sha256 for the notebook itself, for its source, for requirements.txt,
for each file of utils/ that was imported or opened, and for the data it read. A model's folder in data/ counts as a
whole, because its weights are opened where Python cannot see it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path

from tools.pipeline.products import Product

REQUIREMENTS = "requirements.txt"
INPUT_FOLDERS = ("assets", "data", "pages", "utils")
NOT_INPUTS = ("data/runs.json",)


def sha256(path: Path) -> str:
    """Of a file, or of all files below a folder (names and contents)."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        lines = (f"{p.relative_to(path).as_posix()} {sha256(p)}\n" for p in files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def inputs(product: Product, files: Iterable[str]) -> list[str]:
    """The paths, relative to the root, that a run depends on."""
    found = {product.source.relative_to(product.root).as_posix(), REQUIREMENTS}
    for name in files:
        parts = name.split("/")
        if parts[0] not in INPUT_FOLDERS or "__pycache__" in parts or name in NOT_INPUTS:
            continue
        if (product.root / name).is_file():
            folder = "/".join(parts[:2])
            is_model = parts[0] == "data" and (product.root / folder / "config.json").is_file()
            found.add(folder if is_model else name)
    return sorted(found)


def make(product: Product, files: Iterable[str], began: float = math.inf) -> dict:
    """The digest of a notebook that has just been written.

    began: when its run began (seconds since the epoch). An input written since then may have been read before or after
    the change, so it gets no hash, and the notebook counts as stale.
    """
    names = inputs(product, files)
    return {
        "notebook": sha256(product.notebook),
        "inputs": {
            name: "" if _written(product.root / name) > began else sha256(product.root / name) for name in names
        },
    }


def _written(path: Path) -> float:
    """When a file, or the newest file below a folder, was last written."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return max(each.stat().st_mtime for each in files)


def save(product: Product, files: Iterable[str], began: float = math.inf) -> None:
    content = json.dumps(make(product, files, began), indent=1)
    product.digest.write_text(content + "\n", encoding="utf8", newline="\n")


def stale(product: Product) -> list[str]:
    """Why the notebook has to be made again, in words; empty when it is up to date."""
    if not product.notebook.exists():
        return ["it does not exist yet"]
    if not product.digest.exists():
        return ["it has no digest"]
    stored = json.loads(product.digest.read_text("utf8"))
    reasons = [] if sha256(product.notebook) == stored["notebook"] else ["it was edited by hand"]
    for name, digest in stored["inputs"].items():
        path = product.root / name
        if not path.exists():
            reasons.append(f"{name} is gone")
        elif sha256(path) != digest:
            reasons.append(f"{name} changed")
    return reasons
