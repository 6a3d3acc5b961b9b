"""The evidence page, its CSV and the score: every claim once, every value as the notebook shows it."""

import csv
import html as markup
import io
import json
import re
from collections import Counter
from functools import cache

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from built_site import documents, html

from tools import evidence_csv, records, site_pages
from utils import claims

ROOT = site_pages.ROOT
LEDGER = claims.load()
CLAIMS = {claim["id"]: claim for insight in LEDGER["insights"] for claim in insight["claims"]}
LATER = {claim["id"]: insight.get("later", []) for insight in LEDGER["insights"] for claim in insight["claims"]}
PAGE = "pages/evidence.html"


@cache
def measured() -> dict[str, list[dict]]:
    """Claim → what each notebook recorded: read here once more, without the code that writes the page."""
    found: dict[str, list[dict]] = {}
    for document in documents():
        path = ROOT / f"{document}.ipynb"
        cells = json.loads(path.read_text("utf8"))["cells"] if path.exists() else []
        for output in (output.get("data", {}) for cell in cells for output in cell.get("outputs", [])):
            if claims.RECORD_TYPE in output:
                data, text = output[claims.RECORD_TYPE], "".join(output["text/plain"])
                shown = {"shown": text.split("\n  ", 1)[1], "notebook": document}
                found.setdefault(data["claim"], []).append(data | shown)
    return found


@cache
def built() -> str:
    return (html() / PAGE).read_text("utf8")


@cache
def sheet() -> str:
    return (ROOT / "pages" / "evidence.csv").read_text("utf-8-sig")


def rows(page: str) -> dict[str, BeautifulSoup]:
    """Claim → its row."""
    return {row.th.get_text(strip=True): row for row in BeautifulSoup(page, "lxml").select(".claims tr.claim")}


def said(part) -> str:
    return " ".join(part.get_text().split())


def indices(text: str) -> str:
    """W_Q as a browser shows it: the index has no underscore."""
    return claims.SYMBOL.sub(lambda found: f"{found[1]}{found[2]}{'⊤' if found[3] else ''}", text)


def formulas(text: str) -> str:
    """W_Q as the built page holds it, before MathJax."""
    symbol = claims.SYMBOL.sub(lambda f: rf"\({f[1]}_{{{f[2]}}}{chr(94) + chr(92) + 'top' if f[3] else ''}\)", text)
    return " ".join(symbol.replace("'", "’").split())


def page_differs(page: str, found: dict[str, list[dict]]) -> list[str]:
    """Claims whose last cell is not what the notebooks recorded, to the letter."""
    wrong = []
    for claim, row in rows(page).items():
        cell = row.find_all("td")[-1]
        shown = [
            (verdict.get_text(), "; ".join(f"{dt.get_text()}: {dt.find_next('dd').get_text()}" for dt in dl("dt")))
            for verdict, dl in zip(cell.select(".result"), cell.select("dl"), strict=False)
        ]
        expected = [(record["verdict"], indices(record["shown"])) for record in found.get(claim, [])]
        links = [link["href"] for link in cell.select("a")]
        places = [f"../{r['notebook']}.html#{claims.anchor(claim, 'measured')}" for r in found.get(claim, [])]
        if (shown, links) != (expected, places):
            wrong.append(claim)
    return wrong


def sheet_differs(text: str, found: dict[str, list[dict]]) -> list[str]:
    """The same for the CSV: readable value, JSON, verdict and place."""
    wrong = []
    for row in csv.DictReader(io.StringIO(text, newline="")):
        claim = row["id"]
        expected = found.get(claim, [])
        value = [{key: record[key] for key in ("notebook", "verdict", "value")} for record in expected]
        places = [f"{r['notebook']}.html#{claims.anchor(claim, 'measured')}" for r in expected]
        same = row["measured"] == " | ".join(record["shown"] for record in expected)
        same = same and json.loads(row["measured_json"]) == value and row["anchor"] == " | ".join(places)
        if not same or row["measured_verdict"] != result(claim):
            wrong.append(claim)
    return wrong


def result(claim: str) -> str:
    verdicts = [record["verdict"] for record in measured().get(claim, [])]
    assert len(set(verdicts)) < 2, "two notebooks differ: decide here what counts"
    return verdicts[0] if verdicts else "a matter of reading"


def test_every_claim_of_the_ledger_is_exactly_one_row_in_its_order():
    names = [row.th.get_text(strip=True) for row in BeautifulSoup(built(), "lxml").select(".claims tr.claim")]
    assert names == list(CLAIMS)


def test_the_table_has_the_same_cells_in_every_row_and_one_body_an_insight():
    table = BeautifulSoup(built(), "lxml").select_one(".claims table")
    columns = [column.get_text() for column in table.select("thead th")]
    for row in table.select("tr.claim"):
        assert [cell["data-label"] for cell in row.find_all("td", recursive=False)] == columns[1:]
    assert [body["data-insight"] for body in table.select("tbody")] == [str(i["id"]) for i in LEDGER["insights"]]
    assert len(table.select("tr.later")) == sum("later" in insight for insight in LEDGER["insights"])


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: claim["id"])
def test_a_row_says_what_the_ledger_says(claim):
    row = rows(built())[claim["id"]]
    note, verdict, sources, _ = row.find_all("td", recursive=False)
    assert said(note) == formulas(claim["note"])
    assert verdict.strong.get_text() == claim["verdict"]
    assert said(verdict) == claim["verdict"] + claim.get("qualifier", "")
    assert said(sources).startswith(formulas(claim["correction"]))
    assert formulas(claim.get("derived", "")) in said(sources)
    for source in claim.get("sources", []):
        assert f"{formulas(source['where'])} (read: {source['read']})" in said(sources)
    numbers = claim.get("numbers", [])
    assert len(sources.select("details li")) == len(numbers)
    for number, item in zip(numbers, sources.select("details li"), strict=True):
        assert formulas(f"{number['what']}: {number['value']}") in said(item)
        assert ("UNCONFIRMED" in said(item)) is bool(number.get("unconfirmed"))
    cited = {s["key"] for s in claim.get("sources", [])} | {n["source"] for n in numbers}
    assert len({link["href"] for link in sources.select("a.reference")}) == len(cited)


def test_what_was_measured_stands_on_the_page_as_the_notebook_shows_it():
    assert len(measured()) > 45
    assert page_differs(built(), measured()) == []


def test_the_csv_holds_what_the_notebooks_recorded():
    assert sheet_differs(sheet(), measured()) == []


@pytest.mark.parametrize("claim", ["C1.2", "C6.2", "C12.2"])
def test_a_value_that_differs_from_the_notebook_is_found(claim):
    name, value = next(iter(measured()[claim][0]["value"].items()))
    ledger_text = indices(markup.escape(name, quote=False))
    changed = re.sub(rf"(<dt>{re.escape(ledger_text)}</dt><dd>)[^<]*", r"\g<1>0.123", built())
    assert changed != built() and page_differs(changed, measured()) == [claim]
    found = measured() | {claim: [measured()[claim][0] | {"shown": f"{name}: {value}0", "value": {name: "0"}}]}
    assert page_differs(built(), found) == [claim] == sheet_differs(sheet(), found)
    line = next(line for line in sheet().splitlines() if line.startswith(f"{claim},"))
    edited = sheet().replace(line, line.replace(f"{name}: {value}", f"{name}: 0.123"))
    assert edited != sheet() and sheet_differs(edited, measured()) == [claim]


def test_a_notebook_records_each_claim_at_most_once_and_only_known_ones():
    for claim, found in measured().items():
        notebooks = [record["notebook"] for record in found]
        assert claim in CLAIMS and len(notebooks) == len(set(notebooks)), claim
        assert all(record["verdict"] in claims.MEASURED for record in found), claim


def test_a_row_can_be_filtered_by_what_it_shows():
    for claim, row in rows(built()).items():
        assert row["data-insight"] == re.match(r"C(\w+)\.", claim)[1] == row.parent["data-insight"]
        assert row["data-verdict"].replace("-", " ") == row.strong.get_text() == CLAIMS[claim]["verdict"]
        assert row["data-measured"].replace("-", " ") == row.select_one(".result").get_text() == result(claim)


def test_the_options_of_the_filters_count_their_claims():
    page = BeautifulSoup(built(), "lxml")
    for select in page.select(".filters select"):
        counted = Counter(row[f"data-{select['name']}"] for row in rows(built()).values())
        options = {
            o["value"]: int(re.search(r"\((\d+)\)$", o.get_text())[1]) for o in select.select("option[value!='']")
        }
        assert options == {value: counted[value] for value in options} and set(counted) <= set(options)
    assert page.select_one(".filters").has_attr("hidden")


def test_the_page_says_the_same_as_the_ledger_on_how_it_was_read_and_tested():
    page = BeautifulSoup(built(), "lxml")
    text = said(page.select_one("article"))
    for insight in (i for i in LEDGER["insights"] if "experiment" in i):
        test = said(page.select_one(f"#test-{insight['id']}").parent)
        assert all(formulas(part) in test for part in insight["experiment"].values())
    later = [item for insight in LEDGER["insights"] for item in insight.get("later", [])]
    assert all(formulas(item["finding"]) in text for item in later)
    read = [row.find_all("td")[1].get_text() for row in page.select("#how-each-source-was-read tbody tr")]
    assert read == [source["read"] for source in LEDGER["sources"].values()]


def test_pandas_and_spreadsheets_can_read_the_csv():
    frame = pd.read_csv(ROOT / "pages" / "evidence.csv", dtype=str, keep_default_na=False)
    assert list(frame["id"]) == list(CLAIMS) and list(frame.columns)[0] == "id"
    for _, row in frame.iterrows():
        claim = CLAIMS[row["id"]]
        assert row["note"] == claim["note"] and row["verdict"] == claim["verdict"]
        assert row["correction"] == claim["correction"] and row["qualifier"] == claim.get("qualifier", "")
        assert all(f"{s['key']}, {s['where']} (read: {s['read']})" in row["sources"] for s in claim.get("sources", []))
        assert row["numbers"].count("UNCONFIRMED") == sum("unconfirmed" in n for n in claim.get("numbers", []))
        assert row["later"].split(" | ") == ([item["key"] for item in LATER[row["id"]]] or [""])
    assert not any(cell.startswith(tuple("=+-@\t\r")) for cell in frame.to_numpy().flat)
    assert (ROOT / "pages" / "evidence.csv").read_bytes().startswith("\ufeffid,".encode())


def test_the_page_offers_the_csv_that_is_checked():
    link = BeautifulSoup(built(), "lxml").select_one("a.download")
    offered = (html() / "pages" / link["href"]).resolve()
    assert offered.name == "evidence.csv" and offered.read_bytes() == (ROOT / "pages" / "evidence.csv").read_bytes()
    assert ROOT / "pages" / "evidence.csv" in site_pages.pages()


@pytest.mark.parametrize("start", list("=+-@＝"))
def test_no_cell_of_the_csv_runs_as_a_formula(start):
    assert evidence_csv.safe(f"\t{start}SUM(A1)") == f"'{start}SUM(A1)"
    assert evidence_csv.safe(f"a {start} b") == f"a {start} b"


def test_the_score_equals_a_fresh_count():
    front = BeautifulSoup((html() / "index.html").read_text("utf8"), "lxml")
    shown = {
        link["href"]: (link.select_one(".word").get_text(), int(link.select_one(".count").get_text()))
        for link in front.select(".score a")
    }
    verdicts = Counter(claim["verdict"] for claim in CLAIMS.values())
    results = Counter(result(claim) for claim in CLAIMS)
    expected = {f"{PAGE}?verdict={w.replace(' ', '-')}": (w, verdicts[w]) for w in LEDGER["verdicts"]}
    expected |= {f"{PAGE}?measured={w.replace(' ', '-')}": (w, results[w]) for w in records.RESULTS}
    assert shown == expected and sum(verdicts.values()) == sum(results.values()) == len(CLAIMS)
    widths = {(int(bar.find_previous(class_="count").get_text()), bar["style"]) for bar in front.select(".score .bar")}
    most = max(number for number, _ in widths)
    assert widths == {(number, f"--part:{number / most:.3f}") for number, _ in widths}


def test_the_landing_page_says_how_many_claims_there_are():
    text = said(BeautifulSoup((html() / "index.html").read_text("utf8"), "lxml").select_one("article"))
    told = [
        int(number)
        for number in re.findall(r"(\d+) claims, their|The note makes (\d+) claims", text)
        for number in number
        if number
    ]
    assert told == [len(CLAIMS)] * 2


def test_notebooks_that_differ_make_a_result_conditional():
    holds, fails = {"verdict": "holds"}, {"verdict": "does not hold"}
    assert records.result([]) == "a matter of reading" and records.result([fails, fails]) == "does not hold"
    assert records.result([holds, fails]) == "holds with conditions"
