"""The search-explorer's data, fallback and refusals."""

from __future__ import annotations

import base64
import re

import pytest
import torch
from torch.nn.functional import normalize

from utils.payload import unpack
from utils.search_explorer import search_explorer
from utils.search_index import ranks

PAIRS = [(f"query {i} </script>", f"passage {i} " + "word " * 30) for i in range(12)]


def vectors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    both = [normalize(torch.randn(12, 6, generator=generator), dim=-1) for _ in range(2)]
    return both[0], normalize(both[0] + both[1], dim=-1)


FOUND = {"all heads": vectors(0), "no <heads>": vectors(1)}


def figure(**changes):
    options = {"queries": [3, 0, 7], "condition": "no <heads>", "title": "Two </script>", "alt": "Passages"} | changes
    return search_explorer(options.pop("found", FOUND), options.pop("pairs", PAIRS), **options)


def test_it_is_deterministic_and_escapes():
    html = figure().html()
    assert html == figure().html() and html.count("</script>") == 2
    assert "no &lt;heads&gt;" in html and len(html) < 40_000


def test_places_orders_and_cosines_are_those_of_the_embeddings():
    found, data = unpack(figure().html()), figure().data
    for condition, (queries, passages) in enumerate(FOUND.values()):
        assert found["places"][condition].tolist() == ranks(queries, passages)[[3, 0, 7]].tolist()
        best = (queries[3] @ passages.T).sort(descending=True)
        assert found["cosines"][condition][0].tolist() == pytest.approx(best.values[:5].tolist(), abs=1e-4)
        shown = [data["texts"][int(each)].split()[1] for each in found["order"][condition][0]]
        assert shown == [str(each) for each in best.indices[:5].tolist()]
    assert found["before"][0][0].tolist() == [1, 2, 3, 4, 5]


def test_the_right_passage_is_marked_where_it_is_shown():
    data = figure().data
    for query, own in zip([3, 0, 7], data["own"], strict=True):
        assert own == -1 or data["texts"][own].startswith(f"passage {query} ")


def test_the_fallback_has_a_row_a_query_and_a_bar_a_passage():
    fallback, found = figure().fallback, unpack(figure().html())
    assert fallback.count("<tr>") == 1 + 3
    drawing = base64.b64decode(re.search(r'base64,([^"]+)"', fallback)[1]).decode()
    widths = [int(width) for width in re.findall(r'x="26".*?width="(\d+)"', drawing)]
    assert widths == [round(140 * max(float(cosine), 0)) for cosine in found["cosines"][1][0]]
    assert drawing.count(": right") == (found["places"][1][0] <= 5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"condition": "none"}, "no condition is called 'none'"),
        ({"queries": []}, "at least one"),
        ({"queries": [12]}, "0 to 11"),
        ({"pairs": PAIRS[:5]}, "5 pairs need as many embeddings"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        figure(**changes)
