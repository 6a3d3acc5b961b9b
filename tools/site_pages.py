"""Write what the site derives from data: ``python -m tools.site_pages``; with ``--check`` compare only.

- assets/course.css: the palette, from utils/palette.json
- index.md: one card an insight, from data/claims.yaml and from what the notebooks recorded
- pages/evidence.md: the whole ledger, with the measured verdicts
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import yaml

from tools import status_page
from utils import claims

ROOT = Path(__file__).resolve().parents[1]
ON_CARDS = [1, 2, 3, "3b", 4, 5, 6, 7, 8, 9, 10, 11]
TOP = r"^\top"
COMMAND = "python -m tools.site_pages"


def palette_css(palette: dict) -> str:
    """The palette as custom properties ``--ai-…`` for the light and for the dark theme."""
    rules = {"light": ':root, html[data-theme="light"]', "dark": 'html[data-theme="dark"]'}
    return "\n".join(
        f"{rule} {{\n" + "".join(f"  --ai-{name}: {shades[theme]};\n" for name, shades in palette.items()) + "}"
        for theme, rule in rules.items()
    )


def between(text: str, start: str, end: str, new: str) -> str:
    """``text`` with everything between the lines ``start`` and ``end`` replaced by ``new``."""
    if text.count(start) != 1 or text.count(end) != 1:
        raise ValueError(f"expected one {start!r} and one {end!r}: restore these two lines")
    head, rest = text.split(start)
    return f"{head}{start}\n{new}\n{end}{rest.split(end)[1]}"


def toc_files(toc: dict) -> list[str]:
    """Every document of _toc.yml, without suffix, in order."""
    found = [toc["root"]] if "root" in toc else []
    for entry in [*toc.get("parts", []), *toc.get("chapters", []), *toc.get("sections", [])]:
        found += [entry["file"]] if "file" in entry else []
        found += toc_files({key: value for key, value in entry.items() if key in ("chapters", "sections")})
    return found


def recorded(documents: list[str], root: Path = ROOT) -> dict[str, list[dict]]:
    """Claim id → what the published notebooks recorded for it: ``value``, ``verdict``, ``notebook``."""
    found: dict[str, list[dict]] = {}
    for document in documents:
        path = root / f"{document}.ipynb"
        cells = json.loads(path.read_text("utf8"))["cells"] if path.exists() else []
        for output in (output for cell in cells for output in cell.get("outputs", [])):
            data = output.get("data", {}).get(claims.RECORD_TYPE)
            if data:
                found.setdefault(data["claim"], []).append({**data, "notebook": document})
    return found


def md(text: object) -> str:
    """Plain text as MyST: characters that would start markup are escaped, symbols such as W_Q become formulas."""
    escaped = re.sub(r"([\\*`\[\]$<])", r"\\\1", str(text))
    if "@" in escaped:
        return escaped
    return claims.SYMBOL.sub(lambda found: f"${found[1]}_{{{found[2]}}}{TOP if found[3] else ''}$", escaped)


def tally(insight: dict) -> str:
    """For example ``The note’s 5 claims: 2 correct, 1 imprecise, 1 half wrong, 1 wrong``."""
    verdicts = [claim["verdict"] for claim in insight["claims"]]
    counts = [f"{verdicts.count(word)} {word}" for word in claims.load()["verdicts"] if word in verdicts]
    head = "The note’s claim" if len(verdicts) == 1 else f"The note’s {len(verdicts)} claims"
    return f"{head}: {', '.join(counts)}."


def measured(records: list[dict]) -> str:
    return ", ".join(f"{record['claim']} {record['verdict']}" for record in records)


def card(insight: dict, documents: list[str], records: dict) -> str:
    """One card of the landing page. A chapter that is not in the table of contents yet is not linked."""
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


def cited(key: str) -> str:
    return f"{{cite:t}}`{key}`"


def shown(value: object) -> str:
    return "; ".join(f"{name}: {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)


def claim_block(claim: dict, records: list[dict]) -> str:
    """One claim of the evidence page: the note, the verdict, what it rests on, what the notebooks measured."""
    rests = [f"Rests on {md(claim['derived'])}."] if "derived" in claim else []
    rests += [f"Rests on {cited(s['key'])}, {md(s['where'])} (read: {s['read']})." for s in claim.get("sources", [])]
    for n in claim.get("numbers", []):
        mark = "**UNCONFIRMED**, " if n.get("unconfirmed") else ""
        where = f"{cited(n['source'])}, {md(n['where'])}; {mark}read: {n['read']}"
        rests.append(f"Reported: {md(n['what'])}: {md(n['value'])} ({where}).")
    for r in records:
        link = f"[{r['notebook']}](../{r['notebook']}.ipynb)"
        rests.append(f"**Measured** in {link}: the claim **{r['verdict']}** ({md(shown(r['value']))}).")
    target = claim["id"].lower().replace(".", "-")
    lines = [f"(claim-{target})=", "::::{div} claim", f"**{claim['id']}** The note: {md(claim['note'])}", ""]
    lines += [f"**{md(claims.verdict(claim)).capitalize()}.** {md(claim['correction'])}", "", ":::{div} rests"]
    return "\n".join([*lines, *(f"- {line}" for line in rests), ":::", "::::"])


def later_item(item: dict) -> str:
    mark = "**UNCONFIRMED**, " if item.get("unconfirmed") else ""
    return f"- {cited(item['key'])}: {md(item['finding'])} ({mark}read: {item['read']})"


def quantities(insight: dict) -> str:
    rows = ["| Id | Quantity | Formula | BERT-base | Basis |", "|---|---|---|---|---|"]
    for q in insight["quantities"]:
        basis = q["basis"] if q["basis"] in ("derived", "memory") else cited(q["basis"])
        mark = " **UNCONFIRMED**" if q.get("unconfirmed") else ""
        rows.append(f"| {q['id']} | {md(q['what'])} | {md(q['formula'])} | {md(q['value'])}{mark} | {basis} |")
    return "\n".join(rows)


def section(insight: dict, records: dict) -> str:
    """The part of the evidence page for one insight."""
    parts = [f"## {insight['id']} · {md(insight['title'])}", f"**Insight.** {md(insight['insight'])}"]
    parts += [claim_block(claim, records.get(claim["id"], [])) for claim in insight["claims"]]
    if "quantities" in insight:
        parts.append(quantities(insight))
    if "later" in insight:
        parts.append("**Since then**\n\n" + "\n".join(map(later_item, insight["later"])))
    if test := insight.get("experiment"):
        parts.append(
            f"**Test.** {md(test['design'])} *Null model:* {md(test['null_model'])}. "
            f"*Predicts:* {md(test['predicts'])}. *Refuted if:* {md(test['falsified'])}."
        )
    return "\n\n".join(parts)


def evidence_page(ledger: dict, records: dict) -> str:
    template = (ROOT / "templates" / "evidence.md").read_text("utf8")
    words = {
        "VERDICTS": "\n".join(f"| **{word}** | {md(meaning)} |" for word, meaning in ledger["verdicts"].items()),
        "READINGS": "\n".join(f"| **{word}** | {md(meaning)} |" for word, meaning in ledger["readings"].items()),
        "INSIGHTS": "\n\n".join(section(insight, records) for insight in ledger["insights"]),
        "SOURCES": "\n".join(
            f"| {cited(key)} | {source['read']} | {md(source.get('note', ''))} |"
            for key, source in ledger["sources"].items()
        ),
        "COMMAND": COMMAND,
    }
    for word, text in words.items():
        template = template.replace(f"@{word}@", text)
    return template


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Every derived file with the text it should have."""
    ledger = claims.load()
    documents = toc_files(yaml.safe_load((root / "_toc.yml").read_text("utf8")))
    records = recorded(documents, root)
    css, index = root / "assets" / "course.css", root / "index.md"
    palette = json.loads((root / "utils" / "palette.json").read_text("utf8"))
    return {
        css: between(css.read_text("utf8"), "/* palette: begin */", "/* palette: end */", palette_css(palette)),
        index: between(index.read_text("utf8"), "% cards: begin", "% cards: end", cards(ledger, documents, records)),
        root / "pages" / "evidence.md": evidence_page(ledger, records),
        root / "pages" / "status.md": status_page.page(root, documents),
    }


def stale(root: Path = ROOT) -> list[Path]:
    """Derived files that differ from what they should be."""
    return [path for path, text in pages(root).items() if not path.exists() or path.read_text("utf8") != text]


def main() -> None:
    if "--check" in sys.argv[1:]:
        if found := stale():
            sys.exit(f"out of date: {', '.join(str(path.relative_to(ROOT)) for path in found)}; run {COMMAND}")
        return
    for path, text in pages().items():
        path.write_text(text, "utf8")


if __name__ == "__main__":
    main()
