"""Figures as palette PNGs, a third of the size: ``python -m tools.pipeline.pictures [NAME ...]`` for stored notebooks.

A picture gets the fewest colours, 256 at most, at which no eye tells it from the original: the mean error of a pixel is
at most ``MEAN`` and one pixel in a thousand is off by more than ``RARE``. The error of a pixel is the largest of its
three channels, which go to 255; what differs is the edge of a letter or a line. There is no dithering, so flat areas
stay flat, and a transparent ground becomes white, as the site shows it. The same picture gives the same bytes.
"""

from __future__ import annotations

import base64
import io
import json
import sys

import nbformat
import numpy as np
from nbformat import NotebookNode
from PIL import Image

from tools.pipeline import digest
from tools.pipeline.products import all_products, select

COLOURS = (64, 128, 256)
MEAN, RARE = 0.1, 8


def error(original: Image.Image, reduced: Image.Image) -> tuple[float, float]:
    """(mean, 99.9th percentile) over the pixels of the largest difference of a channel."""
    pixels = [np.asarray(image.convert("RGB"), dtype=int) for image in (original, reduced)]
    largest = np.abs(pixels[0] - pixels[1]).max(axis=-1)
    return float(largest.mean()), float(np.percentile(largest, 99.9))


def on_white(image: Image.Image) -> Image.Image:
    ground = Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("RGB")


def reduce(png: bytes) -> bytes:
    """The picture with a palette, or ``png`` itself when it has one or would not get smaller."""
    image = Image.open(io.BytesIO(png))
    if image.mode == "P":
        return png
    original = on_white(image)
    for colours in COLOURS:
        reduced = original.quantize(colours, Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE)
        mean, rare = error(original, reduced)
        if mean <= MEAN and rare <= RARE:
            break
    file = io.BytesIO()
    reduced.save(file, "PNG", optimize=True)
    return min(file.getvalue(), png, key=len)


def reduce_output(output: NotebookNode) -> None:
    """In place: the PNG of a cell's output, if it has one."""
    data = output.get("data", {})
    if "image/png" in data:
        data["image/png"] = base64.b64encode(reduce(base64.b64decode(data["image/png"]))).decode()


def main(names: list[str]) -> int:
    """Reduce the pictures of stored notebooks without running them; their digests follow."""
    from tools.pipeline.normalise import write  # which needs this module

    for product in select(names, all_products()) if names else all_products():
        if "it was edited by hand" in digest.stale(product):
            print(f"{product.name} differs from its digest and is left alone: make notebooks first", file=sys.stderr)
            return 1
        before = product.notebook.stat().st_size
        notebook = nbformat.read(product.notebook, as_version=4)
        for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
            reduce_output(output)
        write(notebook, product.notebook)
        stored = json.loads(product.digest.read_text("utf8")) | {"notebook": digest.sha256(product.notebook)}
        product.digest.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf8", newline="\n")
        print(f"{product.name}: {before / 1e3:.0f} to {product.notebook.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
