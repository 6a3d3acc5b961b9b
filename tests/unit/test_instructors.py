"""The lesson plans: each hour of the syllabus once, each notebook used, no number that its notebook does not have."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from stated_numbers import numbers

from tools.records import documents

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "pages"
DOCUMENTS = documents()
NOTEBOOKS = [name for name in DOCUMENTS if name.split("/")[0] in ("chapters", "labs", "assessments")]
HOURS = range(1, 17)
TABLES = ("Min | Show", "Questions to ask", "Likely wrong answers")
PARTS = (*TABLES, "**Cut when late:**", "**Never cut:**", "**Homework:**")
NAMES = re.compile(  # numbers that measure nothing: of claims, exercises, sections, links, other hours, lengths of time
    r"\bC\d+b?\.\d+|\b[A-Z]\d?\.\d+|Exercises? \d+\.\d+(?: and \d+\.\d+)?"
    r"|§ \*.+?\*|\]\([^)]*\)|\bhours? \d+|\d+ (?:and \d+ )?minutes"
)


def plans() -> dict[int, str]:
    """Hour → its plan. An hour that stands twice is refused."""
    text = "".join((PAGES / f"lesson-plans-{part}.md").read_text("utf8") for part in (1, 2))
    found = re.findall(r"^## Hour (\d+) (.*?)(?=^\(hour-|^# |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len({hour for hour, _ in found}) == len(found)
    return {int(hour): plan for hour, plan in found}


PLANS = plans()
HOUR = pytest.mark.parametrize("hour", HOURS)


def rows(plan: str, head: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    table = plan.split(f"| {head}")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in table]


def linked(text: str) -> list[str]:
    """The notebooks that a text links."""
    return re.findall(r"\]\(\.\./(\w+/[\w-]+)\.ipynb\)", text)


@cache
def read(name: str) -> str:
    """Text, code and outputs of a notebook."""
    texts = []
    for cell in json.loads((ROOT / f"{name}.ipynb").read_text("utf8"))["cells"]:
        texts.append("".join(cell["source"]))
        for output in cell.get("outputs", []):
            texts += ["".join(output.get("text", "")), "".join(output.get("data", {}).get("text/plain", ""))]
    return "\n".join(texts)


@cache
def sections(name: str) -> list[set[str]]:
    """The numbers of each section of a notebook."""
    return [numbers(section) for section in re.split(r"^## ", read(name), flags=re.MULTILINE)]


def hours_of(text: str) -> list[int]:
    first, *last = map(int, text.split("–"))
    return list(range(first, (last or [first])[0] + 1))


def insights(text: str) -> set[str]:
    """The insights that a cell names. A chapter's file name is not one."""
    plain = re.sub(r"\]\([^)]*\)|chapters .*", "]", text)
    return {"all"} if "all" in plain else set(re.findall(r"\d+b?", plain))


def test_each_hour_has_one_plan():
    assert sorted(PLANS) == list(HOURS)


def test_hours_and_insights_are_those_of_the_syllabus():
    syllabus = rows((PAGES / "syllabus.md").read_text("utf8"), "Hours | Part")
    assert [hour for row in syllabus for hour in hours_of(row[0])] == list(HOURS)
    for hours, _, named, *_ in syllabus:
        lines = (re.search(r"\*\*Insights\*\* \|(.*)\|", PLANS[hour])[1] for hour in hours_of(hours))
        planned = set().union(*map(insights, lines))
        assert planned == (insights(named) or planned), f"hours {hours}"  # the planning hour names none


def test_the_contents_name_each_hour_and_its_objectives():
    contents = {int(row[0]): row for row in rows((PAGES / "lesson-plans.md").read_text("utf8"), "Hour | Plan")}
    assert list(contents) == list(HOURS)
    for hour, (_, link, _, objectives) in contents.items():
        title = PLANS[hour].splitlines()[0].removeprefix("· ")
        assert re.fullmatch(rf"\[(.+)\]\(#hour-{hour}\)", link)[1] in (title, title.split(", ")[-1].capitalize()), hour
        goal = re.search(r"\*\*Goal\*\* \|(.*)\|", PLANS[hour])[1]
        assert objectives.split(", ") == re.findall(r"\[(\w+)\]\(objectives\.md\)", goal)


def test_each_notebook_of_the_book_is_used():
    used = {name for plan in PLANS.values() for name in linked(plan)}
    assert set(NOTEBOOKS) == used


@HOUR
def test_a_plan_has_its_parts_in_their_order(hour):
    places = [PLANS[hour].find(part) for part in PARTS]
    assert min(places) >= 0 and places == sorted(places), dict(zip(PARTS, places, strict=True))
    assert len(rows(PLANS[hour], "Questions to ask")) >= 3
    assert len(rows(PLANS[hour], "Likely wrong answers")) >= 3


@HOUR
def test_the_minutes_of_an_hour_are_sixty(hour):
    assert sum(int(row[0]) for row in rows(PLANS[hour], "Min | Show")) == 60


@HOUR
def test_a_plan_names_sections_that_are_there(hour):
    headings = {h for name in linked(PLANS[hour]) for h in re.findall(r"^##+ (.+?)\s*$", read(name), re.MULTILINE)}
    named = re.findall(r"§ \*(.+?)\*", PLANS[hour].replace("\n", " "))
    assert [name for name in named if name not in headings] == []


@HOUR
def test_the_numbers_of_a_line_stand_together_in_a_section_of_its_notebook(hour):
    plan = re.sub(r"^\| \d+ \|", "|", PLANS[hour], flags=re.MULTILINE)  # the column of minutes
    there = [section for name in linked(plan) for section in sections(name)]
    lines = [(numbers(line), line) for line in NAMES.sub("]", plan).splitlines()]
    assert [line for found, line in lines if not any(found <= section for section in there)] == []
