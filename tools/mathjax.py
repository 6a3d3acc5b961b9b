"""Write the site's own MathJax: ``npm pack mathjax@3``, unpack it, then ``python -m tools.mathjax package``.

The parts that the book needs in one file: TeX in, HTML out, MathML for screen readers. MathJax's ready-made files also
hold its menu and explorer (two fifths of their weight), which the site has switched off.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "assets" / "vendor" / "mathjax" / "tex-chtml-book.js"
PARTS = ["core", "input/tex", "output/chtml", "output/chtml/fonts/tex", "a11y/assistive-mml"]


def combine(package: Path) -> str:
    """startup.js first: it takes the settings of the page. It goes on once the whole file has been read."""
    version = json.loads((package / "package.json").read_text("utf8"))["version"]
    if not version.startswith("3."):
        raise ValueError(f"{package} holds MathJax {version}: the site is made for version 3, get it with mathjax@3")
    script = {name: (package / "es5" / f"{name}.js").read_text("utf8") for name in ["startup", *PARTS]}
    head = f"/* MathJax {version}: startup, {', '.join(PARTS)}. Apache License 2.0, see LICENSE. tools/mathjax.py */\n"
    ready = f";MathJax.loader.preLoad({', '.join(map(repr, PARTS))});".replace("fonts/tex'", "fonts/tex.js'")
    return head + script["startup"] + ready + "".join(f"\n;{script[name]}" for name in PARTS) + "\n"


if __name__ == "__main__":
    TARGET.write_text(combine(Path(sys.argv[1])), encoding="utf8", newline="\n")
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1e3:.0f} kB")
