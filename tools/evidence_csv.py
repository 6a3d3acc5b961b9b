"""The ledger as a table for pandas and spreadsheets: pages/evidence.csv, one row a claim."""

from __future__ import annotations

import csv
import io
import json

from tools.myst import line
from tools.records import address, result
from utils import claims

FORMULA = tuple("=+-@＝＋－＠")  # a cell that begins like this would be run as a formula
BOM = "\ufeff"  # without it Excel does not see that the file is UTF-8


def safe(text: object) -> str:
    """One line that no spreadsheet runs: an apostrophe before what would start a formula."""
    text = line(text)
    return f"'{text}" if text.startswith(FORMULA) else text


def listed(items: list[str]) -> str:
    return " | ".join(items)


def sources(claim: dict) -> str:
    found = [f"derived: {claim['derived']}"] if "derived" in claim else []
    return listed(found + [f"{s['key']}, {s['where']} (read: {s['read']})" for s in claim.get("sources", [])])


def number(n: dict) -> str:
    mark = "UNCONFIRMED, " if n.get("unconfirmed") else ""
    return f"{n['what']}: {n['value']} ({n['source']}, {n['where']}; {mark}read: {n['read']})"


def readable(record: dict) -> str:
    return "; ".join(f"{name}: {text}" for name, text in record["parts"].items())


def values(records: list[dict]) -> str:
    """What each notebook recorded, as JSON: a list of objects."""
    found = [{key: record[key] for key in ("notebook", "verdict", "value")} for record in records]
    return json.dumps(found, ensure_ascii=False, sort_keys=True)


def row(insight: dict, claim: dict, records: list[dict]) -> dict[str, str]:
    """One claim; what several sources or notebooks say is separated by `` | ``."""
    return {
        "id": claim["id"],
        "insight": insight["id"],
        "title": insight["title"],
        "note": claim["note"],
        "verdict": claim["verdict"],
        "qualifier": claim.get("qualifier", ""),
        "correction": claim["correction"],
        "sources": sources(claim),
        "numbers": listed([number(n) for n in claim.get("numbers", [])]),
        "numbers_reported": str(len(claim.get("numbers", []))),
        "numbers_unconfirmed": str(sum("unconfirmed" in n for n in claim.get("numbers", []))),
        "measured_verdict": result(records),
        "measured": listed([readable(record) for record in records]),
        "measured_json": values(records),
        "notebook": listed([record["notebook"] for record in records]),
        "anchor": listed([address(record) for record in records]),
        "page": f"pages/evidence.html#{claims.anchor(claim['id'], 'claim')}",
        "later": listed([item["key"] for item in insight.get("later", [])]),
    }


def sheet(ledger: dict, records: dict) -> str:
    """The whole file, quoted as RFC 4180 says."""
    rows = [row(i, claim, records.get(claim["id"], [])) for i in ledger["insights"] for claim in i["claims"]]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: safe(value) for column, value in found.items()} for found in rows)
    return BOM + text.getvalue()
