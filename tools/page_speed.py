"""Measure how fast each page of the site opens: ``python -m tools.page_speed [PAGE ...]``; writes data/site_speed.json.

Each page is opened three times in Chromium with an empty cache, from a local server that sends gzip and answers as over
a line of the speed ``LINE``. A page is usable when it is loaded, its formulas are set, and the pictures and figures of
the first screen are drawn. The same run measures a page of a default Jupyter Book 1 project with the content of
``SAMPLE``. That page asks other hosts for MathJax and more; these requests fail here, so its bytes and seconds are too
low.
"""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path

from tools.book import JUPYTER_BOOK
from tools.chromium import CHROMIUM, FLAGS
from tools.page_weight import HTML, ROOT, TEXT, own
from tools.records import documents

TARGET = ROOT / "data" / "site_speed.json"
SAMPLE = "chapters/01-asymmetry"
RUNS = 3
PIECE = 16384  # bytes that one connection sends before another may
LINE = {"megabit_per_second": 10, "round_trip_ms": 40}
USABLE = """async () => {
  if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
  const near = (element) => {
    const { top, bottom, height } = element.getBoundingClientRect();
    return height > 0 && top < innerHeight && bottom > 0;
  };
  const isFigure = (element) => element.tagName === "IMG" || customElements.get(element.localName);
  const drawn = (element) => element.tagName === "IMG" ? element.complete : Boolean(element.box);   // see BookElement
  const figures = [...document.querySelectorAll("article *")].filter((element) => isFigure(element) && near(element));
  while (!figures.every(drawn)) await new Promise((done) => setTimeout(done, 5));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() / 1000;
}"""


class Counting(http.server.SimpleHTTPRequestHandler):
    """Sends text as gzip and counts the bytes of what it sends, without headers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    sent: list[tuple[str, int, int]]  # path, bytes as sent, bytes of the file
    line: threading.Lock | None

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        body = _gzip(path, path.stat().st_mtime_ns) if path.suffix in TEXT else content
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        if path.suffix in TEXT:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.sent.append((self.path, len(body), len(content)))  # before the reader has it, who may then look here
        self._write(body)

    def _write(self, body: bytes) -> None:
        """Over the line that all connections share, if there is one."""
        if self.line is None:
            self.wfile.write(body)
            return
        time.sleep(LINE["round_trip_ms"] / 1000)
        for start in range(0, len(body), PIECE):
            piece = body[start : start + PIECE]
            with self.line:
                time.sleep(len(piece) * 8 / (LINE["megabit_per_second"] * 1e6))
                self.wfile.write(piece)

    def log_message(self, *args) -> None:
        pass


@functools.cache
def _gzip(path: Path, changed: int) -> bytes:
    return gzip.compress(path.read_bytes(), 6, mtime=0)


@contextmanager
def served(folder: Path, slow: bool = False):
    """(address, list of what was sent) of a server for a folder. slow: over ``LINE``, else as fast as it can."""
    sent: list[tuple[str, int, int]] = []
    kind = type("Handler", (Counting,), {"sent": sent, "line": threading.Lock() if slow else None})
    server_type = type("Server", (http.server.ThreadingHTTPServer,), {"request_queue_size": 64})
    server = server_type(("127.0.0.1", 0), functools.partial(kind, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", sent
    finally:
        server.shutdown()
        server.server_close()


def opened(browser, address: str) -> float:
    """Seconds from the start of the request until the page is usable, with an empty cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address, wait_until="load", timeout=120_000)
    seconds = page.evaluate(USABLE)
    page.wait_for_load_state("networkidle")
    context.close()
    return seconds


def measure(browser, address: str, sent: list) -> dict:
    """Median, lowest and highest of the seconds; bytes and requests of the first time."""
    sent.clear()
    seconds = [opened(browser, address)]
    first = list(sent)
    seconds += [opened(browser, address) for _ in range(RUNS - 1)]
    return {
        "bytes_gzip": sum(size for _, size, _ in first),
        "bytes_raw": sum(size for _, _, size in first),
        "requests": len(first),
        "seconds": [round(f(seconds), 2) for f in (statistics.median, min, max)],
    }


def default_book(folder: Path) -> Path:
    """A Jupyter Book 1 project with the sample and nothing configured but the title and that nothing is executed."""
    (folder / "_config.yml").write_text('title: Default\nexecute: {execute_notebooks: "off"}\n', encoding="utf8")
    (folder / "_toc.yml").write_text("format: jb-book\nroot: index\n", encoding="utf8")
    shutil.copy(ROOT / f"{SAMPLE}.ipynb", folder / "index.ipynb")
    subprocess.run([*JUPYTER_BOOK, "build", "."], cwd=folder, check=True, capture_output=True)
    return folder / "_build" / "html"


def main(names: list[str]) -> int:
    from playwright.sync_api import sync_playwright

    if not (HTML / "searchindex.js").exists():
        print(f"there is no site in {HTML}: run make book first", file=sys.stderr)
        return 1
    chosen = names or documents()
    if unknown := [name for name in chosen if not (HTML / f"{name}.html").exists()]:
        print(f"no such page: {', '.join(unknown)}; a page is named as in _toc.yml, such as {SAMPLE}", file=sys.stderr)
        return 1
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        with served(default_book(Path(folder)), slow=True) as (address, sent):
            default = measure(browser, f"{address}/index.html", sent)
        print(f"default: {default}")
        pages = {}
        with served(HTML, slow=True) as (address, sent):
            for name in chosen:
                pages[name] = measure(browser, f"{address}/{name}.html", sent)
                pages[name]["own_gzip"] = own(HTML / f"{name}.html")
                print(f"{name}: {pages[name]}", flush=True)
        result = {
            "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
            "date": date.today().isoformat(),
            "versions": {"chromium": browser.version}
            | {package: version(package) for package in ("jupyter-book", "sphinx-book-theme")},
            "line": LINE,
            "seconds_are": f"median, lowest, highest of {RUNS}, cold cache",
            "default": {"content": SAMPLE, "only": "local requests: MathJax and others are blocked"} | default,
            "pages": pages,
        }
        browser.close()
    if names:
        print("measured some pages only: nothing is stored")
        return 0
    TARGET.write_text(json.dumps(result, indent=1) + "\n", encoding="utf8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
