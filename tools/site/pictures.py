"""Pictures of a page: lossless WebP, a sixth smaller than PNG; drawn late; their place kept free from the start."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

PICTURE = re.compile(r'<img\b[^>]*?\bsrc="(?:\.\./)*_images/([^"]+)"[^>]*>')


def place(app, pagename, templatename, context, doctree) -> None:
    """Each picture gets its size; all but the first wait until they are near the window."""
    body = context.get("body") or ""
    sources = {name: source for source, name in app.builder.images.items()}
    first = True

    def shown(found: re.Match) -> str:
        nonlocal first
        tag, name = found[0], found[1]
        path = Path(app.srcdir) / sources[name]
        extra = 'decoding="async"' if first else 'decoding="async" loading="lazy"'
        first = False
        if path.suffix == ".svg":
            return tag.replace("<img", f"<img {extra}", 1)
        with Image.open(path) as image:
            width, height = image.size
        if "width=" not in tag and "style=" not in tag:
            extra += f' width="{width}" height="{height}"'
        return tag.replace("<img", f"<img {extra}", 1).replace(name, published(app, path, sources[name], name))

    context["body"] = PICTURE.sub(shown, body)


def published(app, path: Path, source: str, name: str) -> str:
    """The name under which a picture is published: as WebP when that is smaller, which is then written here."""
    if path.suffix != ".png":
        return name
    target = Path(app.outdir) / "_images" / f"{Path(name).stem}.webp"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.convert("RGBA" if image.has_transparency_data else "RGB").save(target, lossless=True, method=4)
        if target.stat().st_size > path.stat().st_size:
            target.unlink()
            return name
    app.builder.images.pop(source, None)
    return target.name
