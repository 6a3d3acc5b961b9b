"""A browser without network: Debian's Chromium, driven by Playwright, with every host but 127.0.0.1 mapped to nothing.

``visit`` opens a page of a folder (or a piece of HTML) and records console errors and every request that would leave
the machine. Without a browser the tests are skipped, unless REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.chromium import CHROMIUM, FLAGS

PAGE = """<!doctype html><html lang="en"{attributes}><head><meta charset="utf-8"><title>Figures</title>
<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">
<style>body{{font:16px/1.5 sans-serif;margin:0 auto;padding:0 1rem;max-width:46rem}}
html[data-theme=dark] body{{background:#14181e;color:#e4e8ee}}</style></head>
<body><main><h1>Figures</h1>{body}</main></body></html>"""


FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))"
SETTLE = """async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
  const late = (part) => part.tagName === "IMG" || (part.tagName.includes("-") && !part.tagName.startsWith("MJX"));
  for (const part of [...document.querySelectorAll("article *")].filter(late)) {
    part.scrollIntoView({ behavior: "instant" });
    await frame();
  }
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  scrollTo({ top: 0, behavior: "instant" });
  await frame();
}"""


def _absent() -> str | None:
    if not CHROMIUM.exists():
        return f"no browser at {CHROMIUM} (install chromium, or set CHROMIUM to where it is)"
    if find_spec("playwright") is None:
        return "the package playwright is not installed (pip install -e '.[test]')"
    return None


def pytest_collection_modifyitems(config, items) -> None:
    """Skip what needs a browser where there is none; fail instead if REQUIRE_BROWSER=1."""
    reason = _absent()
    if reason is None or os.environ.get("REQUIRE_BROWSER") == "1":
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")  # tests write a page anew within a second
        super().end_headers()


@pytest.fixture(scope="session")
def serve() -> Iterator:
    """serve(folder) -> address of a server for that folder on 127.0.0.1; the same folder is served once."""
    servers: dict[Path, http.server.ThreadingHTTPServer] = {}

    def start(folder: Path) -> str:
        folder = Path(folder).resolve()
        if folder not in servers:
            handler = functools.partial(_Quiet, directory=str(folder))
            servers[folder] = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            run = functools.partial(servers[folder].serve_forever, 0.05)  # looks so often whether to stop
            threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{servers[folder].server_address[1]}"

    yield start
    for server in servers.values():
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site, which is built first where it is out of date."""
    from built_site import html

    return html()


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    """One browser for the whole session."""
    if reason := _absent():
        pytest.fail(f"REQUIRE_BROWSER=1, but {reason}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=[*FLAGS, "--process-per-site"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """An open page and what it did: requests that would leave the machine, failed ones, console errors."""

    page: object
    texts: set[str]  # the kinds in which axe has found no fault, on this page or on others
    external: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self, base: str) -> None:
        local = (base, "data:", "blob:", "about:")
        self.page.on("request", lambda r: None if r.url.startswith(local) else self.external.append(r.url))
        self.page.on("response", lambda r: self.failed.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(f"uncaught: {e}"))

    def draw(self) -> None:
        """Draw every figure, also those that are far from the screen and would wait."""
        self.page.evaluate("document.querySelectorAll('[role=group]').forEach(figure => figure.start?.())")

    def settle(self) -> None:
        """Wait until formulas are set, and every figure and picture was in view once and is drawn."""
        self.page.evaluate(SETTLE)

    def resize(self, width: int, height: int = 900) -> None:
        """Another window; figures that are drawn already are drawn again."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate(FRAMES)

    def theme(self, name: str) -> None:
        """Show the theme "light" or "dark", as the button "Color mode" does."""
        self.page.evaluate("name => Object.assign(document.documentElement.dataset, { mode: name, theme: name })", name)
        self.page.evaluate(FRAMES)

    @contextmanager
    def printed(self) -> Iterator[None]:
        """``with seen.printed():`` the page is laid out as for a printer."""
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.page.emulate_media(media="print")
        self.page.evaluate(FRAMES)
        yield
        self.page.emulate_media(media="screen")
        self.page.evaluate("dispatchEvent(new Event('afterprint'))")

    def axe(self, *, others: bool = True) -> list[str]:
        """Serious and critical findings of axe, one line each.

        others: whether to apply all rules, or only those that colours decide, to texts that look new.
        """
        import accessibility  # needs what is installed with the browser's driver

        return accessibility.findings(self.page, self.texts, others=others)

    def clean(self) -> None:
        """Nothing left the machine, nothing failed, no console error."""
        assert self.external == [], f"requests to other hosts: {self.external}"
        assert self.failed == [], f"failed requests: {self.failed}"
        assert self.errors == [], f"console errors: {self.errors}"


class Contexts:
    """Contexts of the browser that are used again: each visit has a new page, but not a new process.

    A process of its own doubles what a visit costs the browser. What a page has stored is removed.
    """

    def __init__(self, browser) -> None:
        self.browser = browser
        self.unused: dict[tuple, list[tuple]] = defaultdict(list)

    @contextmanager
    def page(self, base: str, scheme: str, options: dict, *, alone: bool) -> Iterator:
        """A new page. Its context is closed afterwards if the test fails, or wants to be alone in it."""
        unused = [] if alone else self.unused[(scheme, *sorted(options.items()))]
        context, blank, session = unused.pop() if unused else self._new(scheme, options)
        try:
            yield context.new_page()
            for page in context.pages:
                if page != blank:
                    page.close()
            session.send("Storage.clearDataForOrigin", {"origin": base, "storageTypes": "all"})
        except BaseException:
            alone = True
            raise
        finally:
            context.close() if alone else unused.append((context, blank, session))

    def _new(self, scheme: str, options: dict) -> tuple:
        """A context with the reader's choice of a theme, a blank page that keeps its process, and a line to both."""
        context = self.browser.new_context(color_scheme=scheme, **options)
        context.add_init_script(
            f"try {{ localStorage.setItem('mode', '{scheme}'); localStorage.setItem('theme', '{scheme}') }} catch {{}}"
        )
        blank = context.new_page()
        return context, blank, context.new_cdp_session(blank)


@pytest.fixture(scope="session")
def visit(chromium, serve):
    """``with visit(folder, "page.html", width=768, dark=True) as seen: seen.page…``; takes any option of a new context.

    dark sets the colour scheme of the browser and what the book's theme remembers of the reader's choice.
    disk: open the file itself, without a server. alone: in a context of its own, for what a test changes in it.
    """

    texts: set[str] = set()
    contexts = Contexts(chromium)

    @contextmanager
    def opened(folder: Path, path: str = "", *, width=1280, height=900, dark=False, disk=False, alone=False, **options):
        base = Path(folder).resolve().as_uri() if disk else serve(folder)
        with contexts.page(base, "dark" if dark else "light", options, alone=alone) as page:
            page.set_viewport_size({"width": width, "height": height})
            seen = Visit(page, texts)
            seen.watch(base)
            page.goto(f"{base}/{path}", wait_until="load")
            yield seen

    return opened


@pytest.fixture
def page(tmp_path, visit):
    """page(*figures, width=…, dark=…) opens a page that holds them between ``before`` and ``after``.

    All are drawn at once, unless ``near`` is True: then, as for a reader, when they come near the screen.
    """

    @contextmanager
    def opened(*figures, dark=False, near=False, before="", after="", anchor="", **options):
        body = before + "".join(f"<section>{figure.html()}</section>" for figure in figures) + after
        (tmp_path / "page.html").write_text(PAGE.format(body=body, attributes=' data-theme="dark"' * dark), "utf8")
        with visit(tmp_path, f"page.html{anchor}", dark=dark, **options) as seen:
            if not near:
                seen.draw()
            yield seen

    return opened
