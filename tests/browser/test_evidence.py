"""The table of claims in a browser: filters by mouse and keyboard, the address, anchors, a phone, no script."""

from __future__ import annotations

import pytest
from built_site import html

from utils import claims

PAGE = "pages/evidence.html"
CLAIMS = {claim["id"]: claim for insight in claims.load()["insights"] for claim in insight["claims"]}
ALL = len(CLAIMS)
CLIPPED = """[...document.querySelectorAll('.claims :is(th, td, p, li, dt, dd, label)')]
    .filter((e) => e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 90))"""


@pytest.fixture
def evidence(visit):
    """evidence("?verdict=wrong", width=…) opens the page."""
    return lambda address="", **options: visit(html(), PAGE + address, **options)


def shown(seen) -> list[str]:
    """The ids of the claims that can be seen."""
    return [name.strip() for name in seen.page.locator("tr.claim:visible > th").all_inner_texts()]


def count(seen) -> str:
    return seen.page.get_by_role("status").inner_text()


def having(verdict: str, insight: str = "") -> list[str]:
    return [name for name, claim in CLAIMS.items() if claim["verdict"] == verdict and name.startswith(f"C{insight}")]


def query(seen) -> str:
    return seen.page.evaluate("location.search")


def test_it_fits_every_window_and_is_accessible_when_filtered(evidence):
    with evidence("?insight=3", dark=True) as seen:
        seen.page.evaluate("document.querySelectorAll('.claims details').forEach((d) => { d.open = true; })")
        assert seen.axe() == []
        seen.page.get_by_role("button", name="Reset").click()
        seen.page.wait_for_function("location.search === ''")
        for width in (1280, 768, 360):
            seen.resize(width)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
            assert seen.page.evaluate(CLIPPED) == []
        seen.clean()


def test_filters_combine_and_the_address_keeps_them(evidence):
    with evidence() as seen:
        assert count(seen) == f"{ALL} of {ALL} claims" and shown(seen) == list(CLAIMS)
        seen.page.get_by_label("Verdict").select_option("wrong")
        assert shown(seen) == having("wrong") and count(seen).startswith(f"{len(having('wrong'))} of {ALL}")
        seen.page.get_by_label("Insight").select_option("3")
        both = having("wrong", "3.")
        assert shown(seen) == both and query(seen) == "?insight=3&verdict=wrong"
        seen.page.get_by_label("Words").fill("transformer")
        assert shown(seen) == ["C3.4"] and count(seen) == f"1 of {ALL} claims"
        seen.page.get_by_label("Measured").select_option("holds")
        assert shown(seen) == [] and count(seen) == f"0 of {ALL} claims"
        assert seen.page.locator(".claims tbody:visible").count() == 0
        seen.clean()


def test_a_shared_address_opens_the_same_view(evidence):
    with evidence("?insight=7&verdict=wrong") as seen:
        assert shown(seen) == having("wrong", "7.")
        assert seen.page.get_by_label("Insight").input_value() == "7"
        assert seen.page.locator("#insight-7 tr.later").is_visible()
    with evidence("?verdict=nonsense&insight=99&text=") as seen:
        assert shown(seen) == list(CLAIMS)
        seen.clean()


def test_back_undoes_a_step_and_reset_everything(evidence):
    with evidence() as seen:
        page = seen.page
        page.get_by_label("Insight").select_option("3b")
        assert shown(seen) == ["C3b.1"]
        page.get_by_label("Insight").select_option("1")
        page.get_by_label("Words").press_sequentially("tied weights")
        assert shown(seen) == ["C1.4"] and "text=tied+weights" in query(seen)
        page.go_back()  # one word is one step, however many letters it has
        assert page.get_by_label("Words").input_value() == "" and len(shown(seen)) == 5
        page.go_back()
        assert shown(seen) == ["C3b.1"] and page.get_by_label("Insight").input_value() == "3b"
        page.go_forward()
        assert len(shown(seen)) == 5
        page.get_by_role("button", name="Reset").click()
        page.wait_for_function("location.search === ''")
        assert shown(seen) == list(CLAIMS) and page.get_by_label("Insight").input_value() == ""
        seen.clean()


def test_the_keyboard_reaches_every_filter(evidence):
    with evidence() as seen:
        page = seen.page
        page.get_by_label("Words").focus()
        page.keyboard.type("orthogonal")
        page.keyboard.press("Enter")  # no form is sent
        assert query(seen) == "?text=orthogonal" and "C6.4" in shown(seen)
        names = []
        for _ in range(4):
            page.keyboard.press("Tab")
            names.append(page.evaluate("document.activeElement.name || document.activeElement.textContent"))
        assert names == ["insight", "verdict", "measured", "Reset"]
        page.keyboard.press("Shift+Tab")
        page.keyboard.type("does")
        assert "measured=does-not-hold" in query(seen)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_function("location.search === ''")
        assert count(seen) == f"{ALL} of {ALL} claims"


def test_words_find_formulas_folded_numbers_and_later_evidence(evidence):
    with evidence("?text=w_k") as seen:
        assert "C1.1" in shown(seen)
    with evidence("?text=auxpass") as seen:  # only in the numbers that are folded away
        assert shown(seen) == ["C2.3"] and seen.page.get_by_text("passive auxiliary").is_visible()
        seen.page.get_by_label("Words").fill("")
        assert not seen.page.get_by_text("passive auxiliary").is_visible()
    with evidence("?text=quantisation") as seen:  # only in what was published since
        assert shown(seen) == [] and seen.page.locator("#insight-2 tr.later").is_visible()
        assert "later evidence on 1 more insight" in count(seen)


def test_an_address_that_names_a_claim_shows_it_although_a_filter_hides_it(evidence):
    with evidence("?verdict=correct#claim-c7-1") as seen:
        assert shown(seen) == [name for name in CLAIMS if name in [*having("correct"), "C7.1"]]
        assert "the address names" in count(seen)
        box = seen.page.locator("#claim-c7-1").bounding_box()
        assert 80 < box["y"] < 400  # below the sticky head of the table
        seen.page.get_by_label("Verdict").select_option("outdated")
        assert shown(seen) == having("outdated")
        seen.page.evaluate("location.hash = 'claim-c2-1'")
        seen.page.locator("#claim-c2-1").wait_for(state="visible")
        assert set(shown(seen)) == {*having("outdated"), "C2.1"}
        seen.clean()


def test_the_score_of_the_landing_page_leads_to_the_claims_it_counts(visit):
    with visit(html(), "index.html") as seen:
        for kind, word in (("verdict", "half wrong"), ("measured", "does not hold")):
            link = seen.page.locator(f".score a[href*='{kind}=']", has_text=word)
            number = int(link.locator(".count").inner_text())
            link.click()
            seen.page.wait_for_url("**/evidence.html?*")
            assert len(shown(seen)) == number and count(seen).startswith(f"{number} of {ALL}")
            seen.page.go_back()
        seen.clean()


def test_back_from_a_notebook_finds_the_filtered_table_again(evidence):
    with evidence("?insight=12&measured=holds-with-conditions") as seen:
        before = shown(seen)
        seen.page.get_by_role("link", name="that measured C12.2").click()
        seen.page.wait_for_url("**/assessments/apply.html#measured-c12-2")
        seen.page.go_back()
        seen.page.wait_for_url("**/evidence.html?*")
        assert shown(seen) == before


def test_on_a_phone_a_row_is_a_block_with_the_names_of_the_columns_and_stays_a_row(evidence):
    with evidence(width=360) as seen:
        row = seen.page.locator("tr.claim").nth(3)
        cells = row.locator("td")
        tops = [cell.bounding_box()["y"] for cell in cells.all()]
        assert tops == sorted(set(tops))
        label = "cell => getComputedStyle(cell, '::before').content"
        assert [cell.evaluate(label).strip('"') for cell in cells.all()] == [
            "The note says",
            "Verdict",
            "The sources say",
            "We measured",
        ]
        assert seen.page.get_by_role("row").count() > ALL and seen.page.get_by_role("rowheader").count() > ALL


def test_without_scripts_the_whole_table_stands_there_and_no_dead_control(evidence):
    with evidence("?verdict=wrong", java_script_enabled=False) as seen:
        assert seen.page.locator("tr.claim:visible").count() == ALL
        assert seen.page.locator(".filters").is_hidden()
        assert seen.page.locator(".claims :is(input, select, button):visible").count() == 0


def test_no_other_page_loads_the_script():
    loading = [path for path in html().rglob("*.html") if "evidence.js" in path.read_text("utf8")]
    assert loading == [html() / PAGE]


def test_it_works_from_disk(chromium):
    page = chromium.new_page()
    page.goto(f"{(html() / PAGE).as_uri()}?verdict=outdated")
    assert page.locator("tr.claim:visible").count() == len(having("outdated"))
    page.get_by_label("Verdict").select_option("wrong")
    assert page.locator("tr.claim:visible").count() == len(having("wrong"))
    assert page.evaluate("location.search") == "?verdict=wrong"
    page.close()
