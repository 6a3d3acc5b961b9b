"""A page loads the scripts and styles that it uses; what no page uses is not published."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tools.icons import RULE

# (mark, files): the files stay on a page whose text has the mark. Inline scripts are named by a word of theirs.
USED_BY = [
    (r"\bsd-tab-", ["design-tabs.js"]),
    (r"\bsd-", ["sphinx-design.min.css"]),
    (r'class="[^"]*\b(toggle\b|admonition[^"]* dropdown)', ["togglebutton", "toggleHint", "toggleOpenOnPrint"]),
    (r'class="[^"]*\bhighlight\b', ["clipboard.min.js", "copybutton", "pygments.css"]),
    (r'class="[^"]*(?<![\w-])cell(?![\w-])', ["mystnb"]),
    (r'class="[^"]*\bmath\b', ["vendor/mathjax/", "window.MathJax", "formulas.js"]),
]
# Put there by the theme or by Sphinx, and asked for by no page: icons are in icons.css (tools/icons.py).
UNUSED = [
    "scripts/fontawesome.js*",
    "vendor/fontawesome",
    "**/*.map",
    "locales",
    "*webpack-macros.html",
    "copybutton_funcs.js",
    "hero.html",
    "page.png",
    "file.png",
    "minus.png",
    "plus.png",
]


def _text(entry) -> str:
    return f"{getattr(entry, 'filename', entry)} {getattr(entry, 'attributes', {}).get('body') or ''}"


def choose(app, pagename, templatename, context, doctree) -> None:
    """Take the files of absent marks from the lists of this page."""
    body = context.get("body") or ""
    left_out = [part for mark, parts in USED_BY if not re.search(mark, body) for part in parts]
    for kind in ("css_files", "script_files"):
        context[kind] = [entry for entry in context[kind] if not any(part in _text(entry) for part in left_out)]


def sweep(app, error) -> None:
    """Remove what is not asked for from the finished site, and the 1900 rules of icons from the theme's style."""
    if error or app.builder.name != "html":
        return
    static = Path(app.outdir) / "_static"
    for path in {path for pattern in UNUSED for path in static.glob(pattern)}:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    style = static / "styles" / "pydata-sphinx-theme.css"
    style.write_text(RULE.sub("", style.read_text("utf8")), encoding="utf8")
