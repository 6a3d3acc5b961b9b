"""Write assets/icons.css, the few icons of the site: ``python -m tools.icons``; with ``--check`` compare only.

The theme loads 1.5 MB of script for about forty icons. Their glyphs are taken out of the fonts that come with the theme
(Font Awesome Free 6, SIL OFL 1.1) into two small fonts inside the style sheet, under the names the theme asks for.
Taken are the icons that the templates and scripts of the theme and of the book name, and those of its style sheet.
"""

from __future__ import annotations

import base64
import io
import re
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "assets" / "icons.css"
COMMAND = "python -m tools.icons"
FONTS = {"Font Awesome 6 Free": ("fa-solid-900.ttf", 900), "Font Awesome 6 Brands": ("fa-brands-400.ttf", 400)}
PROVIDERS = {"github", "gitlab", "bitbucket"}  # the theme puts these names together when a repository is configured
RULE = re.compile(r'(?:\.fa-[a-z0-9-]+:before,?)+\{content:"([^"]*)"\}')
NOTE = f"""/* Written by {COMMAND}. Glyphs: Font Awesome Free 6, https://fontawesome.com, copyright Fonticons, Inc.,
   SIL Open Font License 1.1 (https://openfontlicense.org); a subset under another name. */
"""
LOOK = """/* As large as the pictures that the theme's script would have put in their place. */
.bd-header-article .btn :is(.fa-solid, .fas, .fab) {
  font-size: 1.3rem; width: 1.3rem; line-height: 1; text-align: center;
}
.bd-header-article .btn .fa-person-chalkboard { font-size: 1.04rem; }
.prev-next-area i { font-size: 1em; }
.sidebar-secondary-item i { padding-right: 0; }
"""


def package(name: str) -> Path:
    return Path(find_spec(name).origin).parent


def theme_static() -> Path:
    return package("pydata_sphinx_theme") / "theme" / "pydata_sphinx_theme" / "static"


def theme_css() -> str:
    return (theme_static() / "styles" / "pydata-sphinx-theme.css").read_text("utf8")


def character(css: str) -> str:
    """The character that a CSS string such as ``\\f185`` stands for."""
    return re.sub(r"\\([0-9a-f]+) ?", lambda found: chr(int(found[1], 16)), css)


def known(css: str) -> dict[str, str]:
    """Every icon of a style sheet: name to character."""
    return {
        name: character(rule[1]) for rule in RULE.finditer(css) for name in re.findall(r"\.fa-([a-z0-9-]+)", rule[0])
    }


def named() -> set[str]:
    """What templates and scripts call an icon, here and in the theme."""
    folders = [package("pydata_sphinx_theme"), package("sphinx_book_theme"), ROOT / "templates", ROOT / "assets"]
    ours = [path for folder in (*folders, ROOT / "utils" / "js") for path in sorted(folder.rglob("*"))]
    files = [path for path in ours if path.suffix in (".html", ".js", ".py") and path.name != "fontawesome.js"]
    skipped = ("vendor", "node_modules", "styles")
    texts = [path.read_text("utf8") for path in files if not set(skipped) & set(path.parts)]
    return PROVIDERS | {name for text in texts for name in re.findall(r"\bfa-([a-z0-9-]+)", text)}


def subset(font: Path, characters: set[str]) -> tuple[bytes, set[str]]:
    """(a WOFF font with those of the characters that the font has, these characters)."""
    from fontTools import subset as tool
    from fontTools.ttLib import TTFont

    found = {each for each in characters if ord(each) in TTFont(font).getBestCmap()}
    options = tool.Options(layout_features=[], name_IDs=[0, 1, 2, 13], hinting=False)
    loaded = tool.load_font(str(font), options)
    subsetter = tool.Subsetter(options)
    subsetter.populate(unicodes=[ord(each) for each in found])
    subsetter.subset(loaded)
    for record in loaded["name"].names:
        if record.nameID == 1:
            record.string = "Book icons"  # the name of the original is reserved
    file = io.BytesIO()
    loaded.flavor = "woff"
    loaded.save(file)
    return file.getvalue(), found


def style_sheet() -> str:
    """Two fonts and a rule for each icon. A screen reader gets an empty text, not a private character."""
    css = theme_css()
    every = known(css)
    wanted = {name: every[name] for name in sorted(named() & set(every))}
    by_style = set(re.findall(r'--pst-icon-[a-z-]+:"(.)"', css)) | {character(r"\f107")}  # sphinx-book-theme.css
    faces = []
    for family, (file, weight) in FONTS.items():
        font, _ = subset(theme_static() / "vendor/fontawesome/webfonts" / file, set(wanted.values()) | by_style)
        data = base64.b64encode(font).decode()
        faces.append(
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-display: block; '
            f"src: url(data:font/woff;base64,{data}) format('woff'); }}\n"
        )
    rules = [
        f'.fa-{name}:before {{ content: "{code}"; content: "{code}" / ""; }}\n'
        for name, code in ((name, f"\\{ord(each):x}") for name, each in wanted.items())
    ]
    return NOTE + "".join(faces + rules) + LOOK


def main(arguments: list[str]) -> int:
    made = style_sheet()
    if "--check" in arguments:
        same = TARGET.exists() and TARGET.read_text("utf8") == made
        print(f"{TARGET.relative_to(ROOT)} is up to date" if same else f"the icons changed: run {COMMAND}")
        return 0 if same else 1
    TARGET.write_text(made, encoding="utf8", newline="\n")
    print(f"{TARGET.relative_to(ROOT)}: {made.count(':before')} icons, {len(made) / 1e3:.1f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
