"""The ledger is complete and consistent; cards show it; records carry what a notebook measured."""

import copy
import re
from pathlib import Path

import jsonschema
import pytest

from utils import claims

ROOT = Path(__file__).resolve().parents[2]
LEDGER = claims.load()
ENTRIES = {str(entry["id"]): entry for entry in LEDGER["insights"]}
CLAIMS = [claim for entry in LEDGER["insights"] for claim in entry["claims"]]
HOW_MANY = {
    "0": 3,
    "1": 5,
    "2": 6,
    "3": 8,
    "3b": 1,
    "4": 4,
    "5": 4,
    "6": 4,
    "7": 5,
    "8": 6,
    "9": 3,
    "10": 4,
    "11": 3,
    "12": 4,
}

TEXT = {"type": "string", "minLength": 3}
READ = {"enum": list(LEDGER["readings"])}
KEY = {"enum": list(LEDGER["sources"])}


def strict(required: dict, **optional) -> dict:
    """A schema for an object with exactly these fields."""
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def many(item: dict) -> dict:
    return {"type": "array", "items": item, "minItems": 1}


FLAG = {"const": True}
VALUE = {"type": ["string", "number"]}
SOURCE = strict({"key": KEY, "where": TEXT, "read": READ})
NUMBER = strict({"what": TEXT, "value": VALUE, "source": KEY, "where": TEXT, "read": READ}, unconfirmed=FLAG)
LATER = strict({"key": KEY, "finding": TEXT, "read": READ}, where=TEXT, unconfirmed=FLAG)
TEST = strict({"design": TEXT, "null_model": TEXT, "predicts": TEXT, "falsified": TEXT})
QUANTITY = strict({"id": TEXT, "what": TEXT, "formula": TEXT, "value": TEXT, "basis": TEXT}, unconfirmed=FLAG)
CLAIM = strict(
    {"id": TEXT, "note": TEXT, "verdict": {"enum": list(LEDGER["verdicts"])}, "correction": TEXT},
    qualifier=TEXT,
    derived=TEXT,
    sources=many(SOURCE),
    numbers=many(NUMBER),
) | {"anyOf": [{"required": ["derived"]}, {"required": ["sources"]}]}
INSIGHT = strict(
    {"id": {"type": ["integer", "string"]}, "title": TEXT, "insight": TEXT, "claims": many(CLAIM)},
    chapter=TEXT,
    later=many(LATER),
    experiment=TEST,
    quantities=many(QUANTITY),
)
WHOLE = strict(
    {
        "verdicts": {"type": "object", "additionalProperties": TEXT},
        "readings": {"type": "object", "additionalProperties": TEXT},
        "sources": {
            "type": "object",
            "additionalProperties": strict({"label": TEXT, "link": TEXT, "read": READ}, note=TEXT),
        },
        "insights": many(INSIGHT),
    }
)


def test_every_entry_has_the_fields_of_the_schema_and_no_other():
    jsonschema.validate(LEDGER, WHOLE)


def test_the_schema_refuses_a_claim_that_rests_on_nothing():
    broken = copy.deepcopy(LEDGER)
    del broken["insights"][1]["claims"][0]["derived"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, WHOLE)


def test_no_claim_of_the_note_is_missing_and_no_id_occurs_twice():
    expected = [f"C{insight}.{n}" for insight, count in HOW_MANY.items() for n in range(1, count + 1)]
    assert [claim["id"] for claim in CLAIMS] == expected


def test_what_was_only_remembered_or_transcribed_is_never_given_as_a_fact():
    numbers = [number for claim in CLAIMS for number in claim.get("numbers", [])]
    later = [item for entry in LEDGER["insights"] for item in entry.get("later", [])]
    assert all(item.get("unconfirmed") for item in numbers + later if item["read"] in ("memory", "transcript"))
    assert not any(source["read"] == "memory" for claim in CLAIMS for source in claim.get("sources", []))


def bibliography() -> dict[str, str]:
    """Key → entry of pages/references.bib."""
    text = (ROOT / "pages" / "references.bib").read_text("utf8")
    return {found[1]: found[0] for found in re.finditer(r"@\w+\{([\w-]+),.*?\n\}", text, re.DOTALL)}


def test_every_source_is_in_the_bibliography_with_the_same_address_and_year():
    entries = bibliography()
    for key, source in LEDGER["sources"].items():
        assert key in entries, f"{key} is missing in pages/references.bib"
        address = source["link"].removeprefix("arXiv:").removeprefix("doi:")
        assert address in entries[key], f"{key}: {address} is not in its entry of references.bib"
        year = re.search(r"year = \{(\d{4})\}", entries[key])[1]
        assert year in source["label"] and year in key, f"{key}: label and key should carry the year {year}"


def test_every_source_is_used():
    text = (ROOT / "data" / "claims.yaml").read_text("utf8")
    assert [key for key in LEDGER["sources"] if len(re.findall(rf"(?<![\w-]){key}(?![\w-])", text)) < 2] == []


def test_loading_gives_a_copy_of_its_own():
    claims.load()["insights"].clear()
    assert claims.load()["insights"]


@pytest.mark.parametrize("insight", ENTRIES)
def test_a_card_shows_every_claim_with_verdict_and_correction_in_html_and_in_text(insight):
    card = claims.card(insight)
    html = re.sub(r"<[^>]+>", "", card.html)
    for claim in ENTRIES[insight]["claims"]:
        assert claim["id"] in html and claim["id"] in card.text
        assert claims.verdict(claim) in html and claims.verdict(claim) in card.text
        assert claim["correction"] in card.text
    unconfirmed = sum(
        n.get("unconfirmed", False) for claim in ENTRIES[insight]["claims"] for n in claim.get("numbers", [])
    )
    assert html.count("UNCONFIRMED") == card.text.count("UNCONFIRMED") == unconfirmed


def test_a_card_names_the_place_in_the_source_and_how_it_was_read():
    text = claims.card(3).text
    assert "Voita et al. 2019, section 5.1 (read: primary)" in text


def test_a_card_is_the_same_every_time_and_needs_no_script():
    assert claims.card(1).html == claims.card("1").html
    assert "<script" not in claims.card(3).html and " id=" not in claims.card(3).html


def test_a_card_escapes_what_could_be_markup(monkeypatch):
    broken = claims.load()
    broken["insights"][0]["claims"][0]["note"] = "<img onerror=alert(1)> & more"
    monkeypatch.setattr(claims, "_ledger", lambda: broken)
    assert "<img" not in claims.card(0).html and "&lt;img" in claims.card(0).html


@pytest.mark.parametrize("insight", [13, "", None, True, -1])
def test_a_card_of_an_unknown_insight_is_refused_with_the_known_ones(insight):
    with pytest.raises(ValueError, match="choose one of 0, 1, 2, 3, 3b, 4"):
        claims.card(insight)


def test_a_record_carries_its_data_beside_what_people_read():
    bundle = claims.record("C1.1", {"score": 0.17, "heads": 72}, "does not hold")._repr_mimebundle_()
    assert bundle[claims.RECORD_TYPE] == {
        "claim": "C1.1",
        "value": {"score": 0.17, "heads": 72},
        "verdict": "does not hold",
    }
    assert "C1.1: does not hold" in bundle["text/html"] and "score: 0.17; heads: 72" in bundle["text/plain"]


def test_a_record_has_a_place_of_its_own_that_is_the_same_every_time():
    html = claims.record("C3b.1", 1, "holds").html
    assert html == claims.record("C3b.1", 1, "holds").html and html.count(" id=") == 1
    assert (
        f'id="{claims.anchor("C3b.1", "measured")}"' in html and claims.anchor("C3b.1", "measured") == "measured-c3b-1"
    )
    assert len({claims.anchor(claim["id"], "claim") for claim in CLAIMS}) == len(CLAIMS)


def test_a_recorded_value_is_shown_by_name_in_the_order_given():
    value = {"b": 1, "a": {"x": 0.5, "y": "few"}}
    assert list(claims.parts(value).items()) == [("b", "1"), ("a, x", "0.5"), ("a, y", "few")]
    assert claims.parts(0.25) == {"measured": "0.25"}
    assert claims.record("C1.1", value, "holds").text.endswith("\n  b: 1; a, x: 0.5; a, y: few")


def test_a_card_has_no_record_type():
    assert set(claims.card(1)._repr_mimebundle_()) == {"text/html", "text/plain"}


@pytest.mark.parametrize("value", [1, -2.5, 0.125, 1e-06, "i → j", {"a": 1, "b": {"c": "text"}}])
def test_rounded_numbers_texts_and_dicts_can_be_recorded(value):
    assert claims.record("C1.1", value, "holds").data["value"] == value


@pytest.mark.parametrize("value", [1 / 3, {"a": 2 / 3}])
def test_an_unrounded_number_is_refused_with_the_way_out(value):
    with pytest.raises(ValueError, match="round it first"):
        claims.record("C1.1", value, "holds")


@pytest.mark.parametrize("value", [None, True, float("nan"), float("inf"), [], [1], {}, "", " "])
def test_what_is_no_value_is_refused(value):
    with pytest.raises(ValueError, match="rounded finite number, a text, or a dict"):
        claims.record("C1.1", value, "holds")


def test_a_tensor_is_refused_with_the_way_out():
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"convert tensors and arrays with float"):
        claims.record("C1.1", torch.tensor(0.5), "holds")


def test_an_unknown_claim_or_verdict_is_refused():
    with pytest.raises(ValueError, match="not in the ledger"):
        claims.record("C1.9", 1, "holds")
    with pytest.raises(ValueError, match="holds with conditions"):
        claims.record("C1.1", 1, "true")
