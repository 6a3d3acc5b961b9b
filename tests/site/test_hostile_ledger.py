"""Text of the ledger or of a notebook that looks like markup stays text: in the table, and in the CSV."""

import copy
import csv
import io
import shutil
import subprocess
import sys

import pytest
import yaml
from bs4 import BeautifulSoup

from tools import evidence, evidence_csv, site_pages
from tools.myst import line
from utils import claims

ROOT = site_pages.ROOT
HOSTILE = "| a || <script>alert(1)</script> $x^2$ `b` {cite}`c` **d** _e_ [f](g) &lt; {{h}} @SOURCES@ \\ ~~i~~"
HOSTILE += " </td></tr></table>"
STARTS = [
    "",
    "# ",
    "- ",
    "1. ",
    ": ",
    "::: ",
    "```",
    "> ",
    "% ",
    "(t)=",
    "| ",
    "+++",
    "=cmd()",
    "@",
    "---",
    "\n\n    ",
    "***",
]

CONF = """extensions = ["myst_parser", "sphinxcontrib.bibtex"]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
root_doc = "evidence"
smartquotes = False
html_theme = "basic"
myst_enable_extensions = {extensions!r}
"""


def hostile_ledger() -> dict:
    """The ledger with hostile text in every field a reader sees, beginning in every way that starts a block."""
    ledger, n = copy.deepcopy(claims.load()), 0

    def text(_: object) -> str:
        nonlocal n
        n += 1
        return f"{STARTS[n % len(STARTS)]}{HOSTILE}\n\n{n}"

    for insight in ledger["insights"]:
        insight |= {"title": text(0), "insight": text(0)}
        insight["experiment"] = {k: text(0) for k in insight.get("experiment", {})} or None
        if insight["experiment"] is None:
            del insight["experiment"]
        for claim in insight["claims"]:
            claim |= {key: text(0) for key in ("note", "correction", "qualifier", "derived")}
            for part in [*claim.get("sources", []), *claim.get("numbers", [])]:
                part |= {key: text(0) for key in part if key in ("what", "value", "where")}
        for item in insight.get("later", []):
            item["finding"] = text(0)
        for quantity in insight.get("quantities", []):
            quantity |= {key: text(0) for key in ("what", "formula", "value")}
    return ledger


@pytest.fixture(scope="module")
def ledger() -> dict:
    return hostile_ledger()


@pytest.fixture(scope="module")
def found(ledger) -> dict:
    """A record for the first claim of each insight."""
    return {
        insight["claims"][0]["id"]: [
            {
                "claim": insight["claims"][0]["id"],
                "verdict": "holds",
                "value": {HOSTILE: HOSTILE},
                "parts": {f"{HOSTILE}\n\nname": f"= {HOSTILE}"},
                "notebook": "chapters/01-asymmetry",
            }
        ]
        for insight in ledger["insights"]
    }


@pytest.fixture(scope="module")
def page(ledger, found, tmp_path_factory) -> BeautifulSoup:
    """The page, built by Sphinx with the book's extensions of MyST, every warning an error."""
    folder = tmp_path_factory.mktemp("hostile")
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf8"))
    (folder / "conf.py").write_text(CONF.format(extensions=config["parse"]["myst_enable_extensions"]), "utf8")
    (folder / "evidence.md").write_text(evidence.page(ledger, [], found, ROOT, "command"), "utf8")
    (folder / "evidence.csv").write_text("", "utf8")
    shutil.copy(ROOT / "pages" / "references.bib", folder)
    with (folder / "evidence.md").open("a", encoding="utf8") as file:
        file.write("\n```{bibliography}\n```\n")
    command = [sys.executable, "-m", "sphinx", "-qnW", "--keep-going", str(folder), str(folder / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return BeautifulSoup((folder / "out" / "evidence.html").read_text("utf8"), "lxml")


def said(part) -> str:
    return " ".join(part.get_text().split())


def test_hostile_text_leaves_the_table_whole(page, ledger):
    rows = page.select(".claims > table > tbody > tr.claim")
    assert [said(row.th) for row in rows] == [c["id"] for i in ledger["insights"] for c in i["claims"]]
    assert all([cell.name for cell in row.find_all(True, recursive=False)] == ["th"] + ["td"] * 4 for row in rows)
    assert (
        page.select(".claims script, .claims table table, .claims h1, .claims code, .claims pre, .claims em > em") == []
    )
    assert page.select(".claims .math, .claims blockquote, .claims hr, .claims ol, .claims del, .claims s") == []


def test_hostile_text_is_shown_as_it_was_written(page, ledger, found):
    rows = {said(row.th): row for row in page.select("tr.claim")}
    for claim in (claim for insight in ledger["insights"] for claim in insight["claims"]):
        note, verdict, sources, measured = rows[claim["id"]].find_all("td", recursive=False)
        assert said(note) == line(claim["note"])
        assert said(verdict) == claim["verdict"] + line(claim["qualifier"])
        assert said(sources).startswith(line(claim["correction"])) and line(claim["derived"]) in said(sources)
        for record in found.get(claim["id"], []):
            shown = {said(dt): said(dt.find_next("dd")) for dt in measured.select("dt")}
            assert shown == {line(name): line(value) for name, value in record["parts"].items()}
    assert all(line(i["title"]) in said(page.select_one(f"#insight-{i['id']} .group")) for i in ledger["insights"])


def test_hostile_text_leaves_the_csv_whole(ledger, found):
    text = evidence_csv.sheet(ledger, found)
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    known = [claim for insight in ledger["insights"] for claim in insight["claims"]]
    assert [row["id"] for row in rows] == [claim["id"] for claim in known]
    for row, claim in zip(rows, known, strict=True):
        assert None not in row and row["note"].removeprefix("'") == line(claim["note"])
        assert not any(cell.startswith(tuple("=+-@")) for cell in row.values())
