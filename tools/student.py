"""Pack what a student needs, without solutions: ``python -m tools.student`` writes dist/attention-insights-student.zip.

Left out: the sources (they hold the solutions), the solved notebooks and the tests.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tools.pipeline.products import ROOT, all_products
from tools.pipeline.source import BEGIN

TARGET = ROOT / "dist" / "attention-insights-student.zip"
FOLDERS = ("utils", "data")
RENAMED = {"tools/student_readme.md": "README.md"}  # the copy has a README of its own
FILES = (
    *RENAMED,
    "pyproject.toml",
    "requirements.txt",
    "constraints.txt",
    "LICENSE",
    "LICENSE-text",
    "CITATION.cff",
)
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file


def contents(root: Path = ROOT) -> list[Path]:
    """Every file of the student's copy."""
    notebooks = [product.notebook for product in all_products(root) if not product.solved]
    helpers = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
    wanted = [*(root / name for name in FILES), *notebooks, *helpers]
    return [path for path in wanted if path.is_file() and "__pycache__" not in path.parts]


def pack(files: Iterable[Path], target: Path, root: Path = ROOT) -> None:
    """Write the zip. A notebook that still holds a solution is refused."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            content = path.read_bytes()
            if path.suffix == ".ipynb" and BEGIN.encode() in content:
                raise ValueError(f"{path} holds a solution: it must not reach a student")
            name = path.relative_to(root).as_posix()
            entry = zipfile.ZipInfo(f"attention-insights/{RENAMED.get(name, name)}", LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def main() -> int:
    files = contents()
    pack(files, TARGET)
    print(f"{TARGET.relative_to(ROOT)}: {len(files)} files, {TARGET.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
