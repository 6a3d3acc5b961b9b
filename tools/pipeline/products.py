"""Which notebooks come out of which source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("chapters", "labs", "assessments")


@dataclass(frozen=True)
class Product:
    """One notebook. ``solved`` tells whether the solutions are kept."""

    source: Path
    notebook: Path
    solved: bool
    root: Path = ROOT

    @property
    def name(self) -> str:
        """The notebook's path as people write it, such as ``chapters/01-asymmetry.ipynb``."""
        return self.notebook.relative_to(self.root).as_posix()

    @property
    def digest(self) -> Path:
        return self.notebook.with_suffix(".digest.json")


def slug(source: Path) -> str:
    """``01_asymmetry.py`` becomes ``01-asymmetry``."""
    return source.stem.replace("_", "-")


def products_of(source: Path, root: Path = ROOT) -> list[Product]:
    """A chapter gives one notebook (with stubs); a lab or an assessment gives the student's copy and a solution."""
    kind = source.parent.name
    if kind not in KINDS:
        raise ValueError(f"{source}: a source lies in source/{{{','.join(KINDS)}}}, not in {kind}")
    notebook = root / kind / f"{slug(source)}.ipynb"
    student = Product(source, notebook, solved=False, root=root)
    if kind == "chapters":
        return [student]
    return [student, Product(source, notebook.parent / "solutions" / notebook.name, solved=True, root=root)]


def all_products(root: Path = ROOT) -> list[Product]:
    """Every notebook of the book, chapters first."""
    sources = (source for kind in KINDS for source in sorted((root / "source" / kind).glob("*.py")))
    return [product for source in sources for product in products_of(source, root)]


def select(names: Iterable[str], products: list[Product]) -> list[Product]:
    """The products that the names mean: a part of a source's or notebook's path, such as ``01`` or ``labs/1``."""
    chosen: list[Product] = []
    for name in names:
        wanted = name.replace("\\", "/").removeprefix("./")
        matches = [p for p in products if wanted in p.name or wanted in p.source.as_posix()]
        if not matches:
            raise ValueError(
                f"no notebook matches {name!r}; there are: {', '.join(p.name for p in products) or 'none'}"
            )
        chosen += [match for match in matches if match not in chosen]
    return chosen
