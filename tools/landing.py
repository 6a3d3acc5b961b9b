"""The landing page: the score of the note's claims, and one card an insight."""

from __future__ import annotations

from tools.myst import md
from tools.records import RESULTS, result, slug
from utils import claims

ON_CARDS = [1, 2, 3, "3b", 4, 5, 6, 7, 8, 9, 10, 11]


def tally(insight: dict) -> str:
    """For example ``The note’s 5 claims: 2 correct, 1 imprecise, 1 half wrong, 1 wrong``."""
    verdicts = [claim["verdict"] for claim in insight["claims"]]
    counts = [f"{verdicts.count(word)} {word}" for word in claims.load()["verdicts"] if word in verdicts]
    head = "The note’s claim" if len(verdicts) == 1 else f"The note’s {len(verdicts)} claims"
    return f"{head}: {', '.join(counts)}."


def measured(records: list[dict]) -> str:
    return ", ".join(f"{record['claim']} {record['verdict']}" for record in records)


def card(insight: dict, documents: list[str], records: dict) -> str:
    """One card. A chapter that is not in the table of contents yet is not linked."""
    chapter = insight.get("chapter", "")
    here = [record for claim in insight["claims"] for record in records.get(claim["id"], [])]
    status = "[Chapter in preparation]{.status}"
    if chapter in documents:
        status = f"[Read the chapter]({chapter}.ipynb)" + (f" · measured there: {measured(here)}" if here else "")
    lines = [f"[{insight['id']}]{{.number}} [{md(insight['title'])}]{{.title}}", md(insight["insight"])]
    lines += [f"[{tally(insight)}]{{.tally}}", status]
    return "::::{div} insight\n" + "\n\n".join(lines) + "\n::::"


def cards(ledger: dict, documents: list[str], records: dict) -> str:
    chosen = {entry["id"]: entry for entry in ledger["insights"]}
    return ":::::{div} insights\n" + "\n".join(card(chosen[i], documents, records) for i in ON_CARDS) + "\n:::::"


def bars(caption: str, name: str, counts: dict[str, int], most: int) -> str:
    """One figure: a number and a bar (the longest stands for ``most``) for each word, linked to its claims."""
    items = [
        f'<li><a href="pages/evidence.html?{name}={slug(word)}"><span class="word">{word}</span> '
        f'<span class="count">{n}</span></a><span class="bar" style="--part:{n / most:.3f}"></span></li>'
        for word, n in counts.items()
    ]
    return "\n".join(["<figure>", f"<figcaption>{caption}</figcaption>", "<ul>", *items, "</ul>", "</figure>"])


def score(ledger: dict, records: dict) -> str:
    """How the claims fared: verdicts of the ledger beside results of the notebooks."""
    known = [claim for insight in ledger["insights"] for claim in insight["claims"]]
    verdicts = [claim["verdict"] for claim in known]
    results = [result(records.get(claim["id"], [])) for claim in known]
    said = {word: verdicts.count(word) for word in ledger["verdicts"]}
    found = {word: results.count(word) for word in RESULTS}
    most = max(*said.values(), *found.values())
    left = bars("What the sources say", "verdict", said, most)
    right = bars("What our notebooks measured", "measured", found, most)
    text = (
        f"The note makes {len(known)} claims. This is how they fared: by what the sources say, and by what our "
        "notebooks measured on small models. Each line leads to its claims."
    )
    return f'{text}\n\n```{{raw}} html\n<div class="score">\n{left}\n{right}\n</div>\n```'
