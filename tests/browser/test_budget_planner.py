"""The budget-planner in a browser: its formulas are the planner's, and it answers mouse, touch and keys."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from utils import planner
from utils.budget_planner import PARTS, Setting, budget_planner, costs, duration, flat, megabytes
from utils.planner import METHODS, Architecture, Machine

LLAMA = Architecture(
    layers=3, width=512, heads=8, kv_heads=2, ffn_width=1408, vocabulary=1000, positions=0, kind="decoder", gated=True
)
ARCHITECTURES = {
    "BERT-base": planner.BERT_BASE,
    "MiniLM": planner.MINILM,
    "GPT-2": planner.GPT2,
    "grouped GPT-2 without scores": replace(planner.GPT2, kv_heads=4, output="none"),
    "untied Llama": replace(LLAMA, output="untied"),
    "wide heads": replace(planner.BERT_BASE, heads=6, kv_heads=3, head_width=200, ffn_width=1001, token_types=0),
    "one head": Architecture(layers=1, width=1, heads=1, vocabulary=1, positions=1),
}
SETTINGS = {
    "the goal": Setting(architecture=planner.BERT_BASE, limit=0.1),
    "fine-tuning": Setting(architecture=planner.BERT_BASE, method="AdamW mixed", batch=8, limit=0.7),
    "decoding": Setting(architecture=replace(planner.GPT2, output="none"), batch=96, generate=True, limit=0.015),
}
READOUT = ".readout"


@pytest.fixture
def budget(page):
    """budget(width=…, dark=…) opens a page that holds the figure."""
    shown = budget_planner(SETTINGS, title="Heads do not decide", alt="A bar")
    return lambda **options: page(shown, **options)


def grid() -> list[Setting]:
    """Every architecture under every method, kernel and way to save, short and long, small and large."""
    found = []
    for a, method, attention, checkpointing in product(
        ARCHITECTURES.values(), METHODS, ("eager", "flash"), (False, True)
    ):
        for tokens, batch, removed in ((512, 1, 0), (1, 7, a.heads - a.group), (2048, 96, a.group * (a.kv_heads // 2))):
            setting = Setting(architecture=a, tokens=tokens, batch=batch, removed=removed, method=method)
            found.append(replace(setting, attention=attention, checkpointing=checkpointing))
    tight = {"budget": 10**6, "context": 0, "machine": Machine(3e9, 2.5e8), "limit": 0.02}
    found += [replace(each, **tight) for each in found[::7]]
    found += [replace(each, limit=0.3) for each in found[::5]]
    able = [each for each in found if each.architecture.kind == "decoder" and METHODS[each.method].trained == "nothing"]
    return found + [replace(each, generate=True) for each in able]


def test_its_numbers_are_those_of_the_planner(budget):
    settings = grid()
    assert len(settings) > 800
    with budget() as seen:
        call = "(e, settings) => settings.map((each) => e.costs(each))"
        shown = seen.page.locator("budget-planner").evaluate(call, [flat(each) for each in settings])
        for setting, found in zip(settings, shown, strict=True):
            expected = costs(setting)
            assert set(found) == set(expected)
            for key, value in expected.items():
                assert found[key] == pytest.approx(value, rel=1e-12), f"{key} of {setting}"
        seen.clean()


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)], ids=["phone-dark", "desk-light"])
def test_it_draws_and_is_accessible(budget, width, dark):
    with budget(width=width, dark=dark) as seen:
        assert seen.page.locator("budget-planner .bar").bounding_box()["width"] > 150
        for summary in seen.page.locator("budget-planner summary").all():
            if not summary.evaluate("e => e.parentNode.open"):
                summary.click()
        assert seen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert seen.page.locator("budget-planner .figure").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
        assert seen.axe() == []
        heights = [each.bounding_box()["height"] for each in seen.page.locator("budget-planner button:visible").all()]
        assert min(heights) >= 24
        seen.clean()


@pytest.mark.parametrize("name", SETTINGS)
def test_what_it_shows_is_written_as_the_fallback_writes_it(budget, name):
    with budget() as seen:
        seen.page.get_by_role("combobox", name="setting").select_option(label=name)
        setting, text = SETTINGS[name], seen.page.locator(READOUT).inner_text()
        expected = costs(setting)
        assert f"needs {megabytes(expected['total'])} of 2,000 MB" in text
        assert f"takes at least {duration(expected['seconds'])}" in text
        assert f"the limit of {duration(setting.limit)}" in text
        if expected["largest"]:
            assert f"Largest batch within the limits: {expected['largest']}." in text
        else:
            assert "Not even one text" in text
        legend = seen.page.locator("budget-planner .share").all_inner_texts()
        assert [each.split()[-2] + " MB" for each in legend] == [megabytes(expected[p]) for p in PARTS if expected[p]]
        width = seen.page.locator("budget-planner .bar").bounding_box()["width"]
        shares = [e.bounding_box()["width"] / width for e in seen.page.locator("budget-planner .bar span").all()]
        whole = max(expected["total"], setting.budget)
        assert shares == pytest.approx([expected[p] / whole for p in PARTS if expected[p]], abs=0.01)
        seen.clean()


def test_heads_change_no_parameter_and_eager_memory_only(budget):
    with budget() as seen:
        rows = {
            row.locator("th").inner_text(): row.locator("td").all_inner_texts()
            for row in seen.page.locator("budget-planner tbody tr").all()
        }
        assert rows["6 heads of 128"] == ["−5 MB", "same", "yes"]
        assert rows["24 heads of 32"][0].startswith("+") and rows["24 heads of 32"][1] == "same"
        seen.page.get_by_role("combobox", name="attention").select_option("flash")
        rows = seen.page.locator("budget-planner tbody tr", has_text="24 heads of 32")
        assert rows.locator("td").all_inner_texts() == ["same", "same", "yes"]


def test_keys_mouse_and_touch_change_the_plan(budget):
    with budget(has_touch=True) as seen:
        open_setting = seen.page.get_by_role("combobox", name="setting")
        open_setting.select_option(label="fine-tuning")
        readout = seen.page.locator(READOUT)
        assert readout.inner_text().startswith("Does not fit.") and "2,945 MB too much" in readout.inner_text()
        batch = seen.page.get_by_role("slider", name="texts in a batch")
        batch.focus()
        batch.press("Home")
        assert batch.get_attribute("aria-valuetext") == "1" and "501 MB too much" in readout.inner_text()
        seen.page.get_by_role("button", name="8-bit Adam mixed").tap()
        assert readout.inner_text().startswith("Fits.")
        assert seen.page.evaluate("document.activeElement.shadowRoot.activeElement.tagName") == "BUTTON"
        pruned = seen.page.get_by_role("slider", name="heads pruned")
        pruned.focus()
        pruned.press("End")
        assert pruned.get_attribute("aria-valuetext") == "11 of 12, 92 %"
        seen.page.get_by_role("button", name="start again").click()
        assert "2,945 MB too much" in readout.inner_text()
        seen.page.locator("summary", has_text="Limits").click()
        field = seen.page.get_by_role("spinbutton", name="memory, MB")
        field.fill("8000")
        field.press("Enter")
        assert "of 8,000 MB" in readout.inner_text() and readout.inner_text().startswith("Fits.")
        field.fill("-1")
        field.press("Enter")
        assert "of 8,000 MB" in readout.inner_text()
        limit = seen.page.get_by_role("spinbutton", name="time limit, ms")
        limit.fill("")
        limit.press("Enter")
        assert "limit of" not in readout.inner_text()
        seen.clean()


def test_sizes_always_fit_together(budget):
    """Whatever is moved to either end, heads share the width or keep theirs, and key/value heads divide the heads."""
    with budget() as seen:
        seen.page.get_by_role("combobox", name="setting").select_option(label="decoding")
        seen.page.locator("summary", has_text="Model").click()
        for name in ("key/value heads", "heads H", "width d", "heads pruned", "head width d_h", "heads H", "layers L"):
            for key in ("Home", "End", "ArrowLeft"):
                slider = seen.page.get_by_role("slider", name=name, exact=True)
                slider.focus()
                slider.press(key)
                state = seen.page.locator("budget-planner").evaluate("e => e.state")
                a = Architecture(**{k: state[k] for k in Architecture.__dataclass_fields__})
                a.without_heads(state["removed"])
                found = seen.page.locator("budget-planner").evaluate("e => e.costs(e.state)")
                assert all(value is not None and value >= 0 for value in found.values())
        seen.clean()


def test_a_method_of_training_ends_generating(budget):
    with budget() as seen:
        seen.page.get_by_role("combobox", name="setting").select_option(label="decoding")
        token = seen.page.get_by_role("checkbox", name="time of one more token")
        assert token.is_checked()
        seen.page.get_by_role("combobox", name="method").select_option("LoRA mixed")
        assert not token.is_checked() and token.is_disabled()
        assert "A training step takes" in seen.page.locator(READOUT).inner_text()


def test_without_scripts_the_fallback_is_shown(budget):
    with budget(java_script_enabled=False) as seen:
        assert seen.page.locator("budget-planner table").is_visible()
        assert seen.page.locator("budget-planner img").count() == 1
