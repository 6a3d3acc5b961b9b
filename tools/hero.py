"""Draw the picture of the landing page, assets/hero.html: ``python -m tools.hero``.

Three of the 72 heads of MiniLM read one sentence. Special tokens are dropped and rows renormalised, as the caption in
index.md says. The picture is inline SVG, so that it follows the theme of the page.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SENTENCE = "The animal did not cross the street because it was too tired."
HEADS = [(0, 2, "the previous word"), (1, 8, "the next word"), (4, 3, "the two nouns")]
ROW, LEFT, RIGHT, WIDTH, FAINT = 21, 74, 166, 240, 0.08


def panel(words: list[str], weights: list[list[float]], name: str, gist: str) -> str:
    """One head: reading words on the left, read words on the right, a line as strong as the weight."""
    height = ROW * len(words) + 10
    lines, reads, read = [], [], []
    for i, row in enumerate(weights):
        y = ROW * i + 18
        reads.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{escape(words[i])}</text>')
        read.append(f'<text x="{RIGHT + 6}" y="{y + 4}">{escape(words[i])}</text>')
        for j, weight in enumerate(row):
            if weight >= FAINT:
                path = f"M{LEFT} {y}C{LEFT + 40} {y} {RIGHT - 40} {ROW * j + 18} {RIGHT} {ROW * j + 18}"
                strength = f'stroke-opacity="{0.2 + 0.8 * weight:.1f}" stroke-width="{0.6 + 2.8 * weight:.1f}"'
                lines.append(f'<path d="{path}" {strength}/>')
    strongest = ", ".join(
        f"{words[i]} reads {words[max(range(len(row)), key=row.__getitem__)]}" for i, row in enumerate(weights)
    )
    alt = f"Head {name} reads mostly {gist}: {strongest}."
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}">'
        f'<g class="lines">{"".join(lines)}</g><g class="reads">{"".join(reads)}</g>'
        f'<g class="read">{"".join(read)}</g></svg>'
        f"<figcaption>layer {name.split('.')[0]}, head {name.split('.')[1]}: {escape(gist)}</figcaption>"
    )


def main() -> None:
    import torch

    from utils.attention import attention_maps
    from utils.models import load

    torch.set_num_threads(1)
    maps = attention_maps(*load("minilm"), SENTENCE)["encoder"].words().without_special()
    drawn = [
        panel(maps.queries, maps.head(layer, head).tolist(), f"{layer}.{head}", gist) for layer, head, gist in HEADS
    ]
    figures = "".join(f"<figure>{each}</figure>\n" for each in drawn)
    (ROOT / "assets" / "hero.html").write_text(f'<div class="hero-heads">\n{figures}</div>\n', "utf8")


if __name__ == "__main__":
    main()
