"""Make the notebooks from their sources: ``python -m tools.notebooks [--all] [--check] [NAME ...]``.

Without a name, everything that changed is run again. A NAME is part of a path, such as ``01`` or ``labs/1``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time

from tools import site_pages
from tools.pipeline import digest
from tools.pipeline.execute import NotebookError, Run, execute
from tools.pipeline.normalise import normalise, write
from tools.pipeline.products import ROOT, Product, all_products, select
from tools.pipeline.source import solved_notebook, without_solutions

RUNS = ROOT / "data" / "runs.json"


def build(product: Product) -> Run:
    """Execute a product's notebook and write it, with its digest."""
    began = time.time()
    notebook = solved_notebook(product.source)
    if not product.solved:
        notebook = without_solutions(notebook)
    product.notebook.parent.mkdir(parents=True, exist_ok=True)
    run = execute(notebook, product.notebook.parent)
    write(normalise(run.notebook), product.notebook)
    digest.save(product, run.files, began)
    return run


def note_run(product: Product, run: Run) -> None:
    """Keep how long a run took and what memory it needed, in data/runs.json."""
    runs = json.loads(RUNS.read_text("utf8")) if RUNS.exists() else {}
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    runs[product.name] = {
        "seconds": round(run.seconds, 1),
        "cpu_seconds": round(run.cpu_seconds, 1),
        "peak_mb": run.peak_mb,
        "threads": 1,
        "machine": machine,
    }
    present = {p.name for p in all_products()}
    kept = {name: values for name, values in sorted(runs.items()) if name in present}
    RUNS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf8", newline="\n")


def refresh_pages() -> None:
    """Write what the site derives from the notebooks' records (tools/site_pages.py)."""
    for path, text in site_pages.pages().items():
        path.write_text(text, encoding="utf8", newline="\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", help="part of a path, such as 01 or labs/1")
    parser.add_argument("--all", action="store_true", help="run everything again, changed or not")
    parser.add_argument("--check", action="store_true", help="only say what would be run; exit 1 if anything")
    options = parser.parse_args(arguments)
    products = all_products()
    try:
        chosen = select(options.names, products) if options.names else products
    except ValueError as error:
        parser.error(str(error))
    reasons = {product: ["asked for"] if options.all else digest.stale(product) for product in chosen}
    todo = [product for product in chosen if reasons[product]]
    failed = 0
    for product in todo:
        print(f"{product.name}: {'; '.join(reasons[product])}", flush=True)
        if options.check:
            continue
        try:
            run = build(product)
        except NotebookError as error:
            failed += 1
            print(f"{product.name} was not written: {error}", file=sys.stderr)
            continue
        note_run(product, run)
        print(f"{product.name}: {run.seconds:.1f} s, {run.peak_mb} MB, {product.notebook.stat().st_size / 1e3:.0f} kB")
    if todo and not options.check:
        refresh_pages()
    if not todo:
        print(f"{len(chosen)} notebooks are up to date")
    return 1 if failed or (options.check and todo) else 0


if __name__ == "__main__":
    sys.exit(main())
