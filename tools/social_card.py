"""Draw assets/social-card.png, the picture that a shared link shows: ``python -m tools.social_card``.

The title of the book over the three heads of the landing page (assets/hero.html), in the colours of the palette. Needs
Chromium. Links show it only when a base URL is configured (pages/publishing.md).
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import yaml
from PIL import Image

from tools.chromium import CHROMIUM, FLAGS

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "assets" / "social-card.png"
SIZE = (1200, 630)


def page() -> str:
    """The card as a page: title, what the book does, the three heads of the landing page."""
    colours = {name: shades["dark"] for name, shades in json.loads((ROOT / "utils/palette.json").read_text()).items()}
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))["title"]
    heads = re.sub(r"<figcaption>.*?</figcaption>", "", (ROOT / "assets" / "hero.html").read_text("utf8"))
    main, part = title.split(": ")
    return f"""<!doctype html><meta charset="utf-8"><style>
* {{ box-sizing: border-box; margin: 0; }}
body {{ width: {SIZE[0]}px; height: {SIZE[1]}px; padding: 52px 72px 0; background: {colours["background"]};
  color: {colours["text"]}; font-family: "DejaVu Sans", sans-serif; overflow: hidden; }}
h1 {{ font-size: 47px; line-height: 1.2; letter-spacing: -1px; }}
p {{ margin-top: 18px; font-size: 29px; color: {colours["null"]}; }}
b {{ color: {colours["key"]}; font-weight: 600; }}
.hero-heads {{ display: grid; grid-template-columns: repeat(3, 1fr); gap: 36px; margin-top: 34px; }}
svg {{ width: 100%; font: 13px "DejaVu Sans"; }}
.lines {{ stroke: {colours["query"]}; fill: none; }}
.reads {{ fill: {colours["query"]}; }} .read {{ fill: {colours["key"]}; }}
</style><h1>{main}</h1><p><b>{part}</b>, each taken back to its source and measured</p>{heads}"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        view = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        view.set_content(page())
        picture = Image.open(io.BytesIO(view.screenshot())).convert("RGB")
        browser.close()
    reduced = picture.quantize(64, Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE)
    reduced.save(TARGET, optimize=True)
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
