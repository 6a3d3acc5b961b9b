"""Figures get a palette: smaller, the same to the eye, the same every time."""

import base64
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from tools.pipeline import digest, pictures


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


@pytest.fixture(scope="module")
def figure() -> bytes:
    """A heat map with a scale bar, lines and text, as the notebooks store it."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    picture, (left, right) = plt.subplots(1, 2, figsize=(6, 3), dpi=144)
    picture.colorbar(left.imshow(np.random.default_rng(0).random((32, 32)), cmap="viridis"))
    right.plot(np.sin(np.arange(40) / 4), label="a line")
    right.legend()
    file = io.BytesIO()
    picture.savefig(file, format="png")
    plt.close(picture)
    return file.getvalue()


def test_a_figure_gets_much_smaller_and_no_eye_sees_it(figure):
    reduced = pictures.reduce(figure)
    mean, rare = pictures.error(opened(figure), opened(reduced))
    assert len(reduced) < 0.5 * len(figure)
    assert mean <= 0.5 and rare <= 12
    assert opened(reduced).size == opened(figure).size


def test_a_scale_of_colours_shows_no_bands():
    ramp = np.tile(np.linspace(0, 255, 512).round().astype(np.uint8), (64, 1))
    grey = Image.fromarray(np.stack([ramp, ramp, 255 - ramp], axis=-1))
    steps = np.asarray(opened(pictures.reduce(png(grey))).convert("RGB"), dtype=int)[0]
    assert np.abs(np.diff(steps, axis=0)).max() <= 3


def test_few_colours_stay_exactly_what_they_are():
    flat = Image.new("RGB", (300, 200), "#123456")
    flat.paste("#fedcba", (10, 10, 100, 100))
    reduced = opened(pictures.reduce(png(flat)))
    assert pictures.error(flat, reduced) == (0, 0)


def test_more_colours_are_taken_where_fewer_would_show():
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    assert len(opened(pictures.reduce(png(noise))).getcolors()) == 256


def test_a_transparent_ground_becomes_white():
    clear = Image.new("RGBA", (200, 200), (0, 0, 0, 0))
    assert opened(pictures.reduce(png(clear))).convert("RGB").getpixel((5, 5)) == (255, 255, 255)


def test_the_same_picture_gives_the_same_bytes_and_a_palette_is_left_alone(figure):
    once = pictures.reduce(figure)
    assert pictures.reduce(figure) == once == pictures.reduce(once)


@pytest.fixture
def stored(figure, tmp_path, monkeypatch):
    """A stored notebook with one figure, its digest, and the command that reduces it."""
    data = {"image/png": base64.b64encode(figure).decode(), "text/plain": "<Figure>"}
    cell = new_code_cell("draw()", execution_count=1, outputs=[new_output("display_data", data=data)])
    product = SimpleNamespace(name="a.ipynb", notebook=tmp_path / "a.ipynb", digest=tmp_path / "a.digest.json")
    import nbformat

    nbformat.write(new_notebook(cells=[cell]), product.notebook)
    product.digest.write_text(json.dumps({"notebook": digest.sha256(product.notebook), "inputs": {}}))
    monkeypatch.setattr(pictures, "all_products", lambda: [product])
    return product


def test_a_stored_notebook_is_reduced_without_running_it(stored, capsys):
    before = stored.notebook.stat().st_size
    assert pictures.main([]) == 0
    assert stored.notebook.stat().st_size < 0.5 * before
    assert digest.stale(stored) == []
    assert "a.ipynb" in capsys.readouterr().out


def test_a_notebook_that_was_edited_by_hand_is_left_alone(stored, capsys):
    stored.notebook.write_text(stored.notebook.read_text() + "\n")
    before = stored.notebook.read_bytes()
    assert pictures.main([]) == 1
    assert stored.notebook.read_bytes() == before
    assert "make notebooks" in capsys.readouterr().err
