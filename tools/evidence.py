"""The evidence page: one table of all claims, then the tests, the quantities and how each source was read.

The table is HTML whose cells hold MyST, so that sources are cited and formulas set; roles keep it a table for a screen
reader where a narrow page turns rows into blocks. Values come from the notebooks' records as they show them.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from tools.myst import cited, line, md, table
from tools.records import READING, RESULTS, address, result, slug, title
from utils import claims

COLUMNS = ["Claim", "The note says", "Verdict", "The sources say", "We measured"]


def cell(column: str, *content: str) -> str:
    """One cell: HTML on the lines of the tag, MyST between blank lines."""
    return "\n".join([f'<td role="cell" data-label="{column}">', *content, "</td>"])


def myst(*blocks: str) -> str:
    """Blocks of MyST between HTML."""
    return "\n" + "\n\n".join(blocks) + "\n"


def unconfirmed(item: dict) -> str:
    return "**UNCONFIRMED**, " if item.get("unconfirmed") else ""


def basis(claim: dict) -> list[str]:
    found = [f"- Derived: {md(claim['derived'])}"] if "derived" in claim else []
    return found + [f"- {cited(s['key'])}, {md(s['where'])} (read: {s['read']})" for s in claim.get("sources", [])]


def number(n: dict) -> str:
    where = f"{cited(n['source'])}, {md(n['where'])}; {unconfirmed(n)}read: {n['read']}"
    return f"- {md(n['what'])}: {md(n['value'])} ({where})"


def numbers(reported: list[dict]) -> str:
    """What the sources report, folded away: summary and list."""
    marked = sum("unconfirmed" in each for each in reported)
    many = f"{len(reported)} numbers reported" if len(reported) > 1 else "1 number reported"
    if marked:
        many += f", {'' if len(reported) == 1 else 'all ' if marked == len(reported) else f'{marked} '}UNCONFIRMED"
    items = "\n".join(map(number, reported))
    return f"<details><summary>{many}</summary>\n{myst(items)}\n</details>"


def sources(claim: dict) -> str:
    shown = [myst(md(claim["correction"]), "\n".join(basis(claim)))]
    return cell(COLUMNS[3], *shown, *([numbers(claim["numbers"])] if "numbers" in claim else []))


def measurement(record: dict) -> str:
    """One record of a notebook: its verdict, its values, and the way to the cell."""
    parts = "".join(
        f"<div><dt>{claims.as_html(line(name))}</dt><dd>{claims.as_html(line(value))}</dd></div>"
        for name, value in record["parts"].items()
    )
    name = f'{escape(title(record["notebook"]))}<span class="sr-only"> that measured {record["claim"]}</span>'
    link = f'<a href="../{escape(address(record))}">The cell in {name}</a>'
    return f'<p class="result">{record["verdict"]}</p>\n<dl>{parts}</dl>\n<p class="cell-link">{link}</p>'


def row(insight: dict, claim: dict, records: list[dict]) -> str:
    """The row of one claim."""
    target = claims.anchor(claim["id"], "claim")
    facts = {"insight": insight["id"], "verdict": slug(claim["verdict"]), "measured": slug(result(records))}
    data = " ".join(f'data-{name}="{value}"' for name, value in facts.items())
    qualifier = f"<span>{escape(line(claim['qualifier']))}</span>" if "qualifier" in claim else ""
    shown = [measurement(record) for record in records] or [f'<p class="result reading">{READING}</p>']
    return "\n".join(
        [
            f'<tr role="row" class="claim" {data}>',
            '<th role="rowheader" scope="row">',
            myst(f"({target})=\n[{claim['id']}](#{target})"),
            "</th>",
            cell(COLUMNS[1], myst(md(claim["note"]))),
            cell(COLUMNS[2], f"<strong>{claim['verdict']}</strong>{qualifier}"),
            sources(claim),
            cell(COLUMNS[4], *shown),
            "</tr>",
        ]
    )


def head_row(insight: dict, documents: list[str]) -> str:
    """The row that opens an insight: its title, the corrected insight, the way to its chapter and its test."""
    ways = [f"[Read the chapter](../{insight['chapter']}.ipynb)"] if insight.get("chapter") in documents else []
    ways += [f"[How it is tested](#test-{insight['id']})"] if "experiment" in insight else []
    return "\n".join(
        [
            '<tr role="row" class="group">',
            '<th role="rowheader" scope="rowgroup" colspan="2">',
            myst(f"[{insight['id']}]{{.number}} [{md(insight['title'])}]{{.title}}"),
            '</th>\n<td role="cell" colspan="3">',
            myst(md(insight["insight"]), *([" · ".join(ways)] if ways else [])),
            "</td>\n</tr>",
        ]
    )


def later_row(insight: dict) -> str:
    """The row that closes an insight: what was published since."""
    items = [f"- {cited(i['key'])}: {md(i['finding'])} ({unconfirmed(i)}read: {i['read']})" for i in insight["later"]]
    return "\n".join(
        [
            '<tr role="row" class="later">',
            '<th role="rowheader" scope="row" colspan="2">Since then</th>\n<td role="cell" colspan="3">',
            myst("\n".join(items)),
            "</td>\n</tr>",
        ]
    )


def group(insight: dict, documents: list[str], records: dict) -> str:
    """The rows of one insight."""
    rows = [row(insight, claim, records.get(claim["id"], [])) for claim in insight["claims"]]
    later = [later_row(insight)] if "later" in insight else []
    opening = f'<tbody role="rowgroup" id="insight-{insight["id"]}" data-insight="{insight["id"]}">'
    return "\n".join([opening, head_row(insight, documents), *rows, *later, "</tbody>"])


def options(choices: list[tuple[object, str, int]]) -> str:
    """The options of a filter, with how many claims each has."""
    shown = (f'<option value="{slug(value)}">{escape(line(text))} ({n})</option>' for value, text, n in choices)
    return '<option value="">all</option>' + "".join(shown)


def filters(ledger: dict, records: dict) -> dict[str, str]:
    """The options of the three filters: by insight, by verdict, by what was measured."""
    claims_ = [claim for insight in ledger["insights"] for claim in insight["claims"]]
    verdicts = [claim["verdict"] for claim in claims_]
    results = [result(records.get(claim["id"], [])) for claim in claims_]
    return {
        "insight": options([(i["id"], f"{i['id']} · {i['title']}", len(i["claims"])) for i in ledger["insights"]]),
        "verdict": options([(word, word, verdicts.count(word)) for word in ledger["verdicts"]]),
        "measured": options([(word, word, results.count(word)) for word in RESULTS]),
    }


def experiment(insight: dict) -> str:
    """How the chapter of an insight tests it."""
    test = insight["experiment"]
    return "\n\n".join(
        [
            f"(test-{insight['id']})=\n### {insight['id']} · {md(insight['title'])}",
            md(test["design"]),
            f"*Null model:* {md(test['null_model'])}. *Predicts:* {md(test['predicts'])}. "
            f"*Refuted if:* {md(test['falsified'])}.",
        ]
    )


def quantities(insight: dict) -> str:
    rows = []
    for q in insight["quantities"]:
        basis = q["basis"] if q["basis"] in ("derived", "memory") else cited(q["basis"])
        mark = " **UNCONFIRMED**" if q.get("unconfirmed") else ""
        rows.append([q["id"], md(q["what"]), md(q["formula"]), f"{md(q['value'])}{mark}", basis])
    return table(["Id", "Quantity", "Formula", "BERT-base", "Basis"], rows)


def page(ledger: dict, documents: list[str], records: dict, root: Path, command: str) -> str:
    """pages/evidence.md: templates/evidence.md with its @WORDS@ filled in."""
    insights, chosen = ledger["insights"], filters(ledger, records)
    columns = "".join(f'<th role="columnheader" scope="col">{column}</th>' for column in COLUMNS)
    words = {
        "COMMAND": command,
        "COUNT": str(sum(len(insight["claims"]) for insight in insights)),
        **{f"{name.upper()}_OPTIONS": shown for name, shown in chosen.items()},
        "COLUMNS": columns,
        "INSIGHTS": "\n".join(group(insight, documents, records) for insight in insights),
        "VERDICTS": table(["Verdict", "Meaning"], [[f"**{w}**", md(m)] for w, m in ledger["verdicts"].items()]),
        "READINGS": table(["Read", "Meaning"], [[f"**{w}**", md(m)] for w, m in ledger["readings"].items()]),
        "EXPERIMENTS": "\n\n".join(experiment(insight) for insight in insights if "experiment" in insight),
        "QUANTITIES": "\n\n".join(quantities(insight) for insight in insights if "quantities" in insight),
        "SOURCES": table(
            ["Source", "Read", "Note"],
            [[cited(key), source["read"], md(source.get("note", ""))] for key, source in ledger["sources"].items()],
        ),
    }
    template = (root / "templates" / "evidence.md").read_text("utf8")
    return re.sub(r"@([A-Z_]+)@", lambda found: words[found[1]], template)
