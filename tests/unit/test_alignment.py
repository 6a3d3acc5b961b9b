"""Word models, links and what cross heads read."""

from __future__ import annotations

import pytest
import torch

from utils import alignment
from utils.alignment import Link, Reading, WordModel
from utils.encoder_decoder import pair_batches
from utils.models import load

PAIRS = [
    ("the house".split(), "das haus".split()),
    ("the book".split(), "das buch".split()),
    ("a book".split(), "ein buch".split()),
]


@pytest.fixture(scope="module")
def translator():
    return load("translator")


def by_hand(pairs, rounds):
    """IBM Model 1 with plain dictionaries, as Brown et al. write it."""
    targets = {word for _, target in pairs for word in target}
    chances = {(s, t): 1 / len(targets) for source, target in pairs for s in [None, *source] for t in target}
    for _ in range(rounds):
        counts = dict.fromkeys(chances, 0.0)
        for source, target in pairs:
            for t in target:
                total = sum(chances[s, t] for s in [None, *source])
                for s in [None, *source]:
                    counts[s, t] += chances[s, t] / total
        totals = {}
        for (s, _), count in counts.items():
            totals[s] = totals.get(s, 0.0) + count
        chances = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return chances


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_the_word_model_is_that_of_the_equations(rounds):
    model, expected = WordModel(PAIRS, rounds=rounds), by_hand(PAIRS, rounds)
    for (source, target), chance in expected.items():
        assert model.chance(source, target) == pytest.approx(chance, abs=1e-12)
    assert model.chance("house", "buch") == model.chance("unknown", "das") == 0.0


def test_it_learns_the_textbook_example():
    model = WordModel(PAIRS, rounds=10)
    assert model.origins("the house".split(), "das haus".split()) == [0, 1]
    assert model.origins("a book".split(), "fremd buch".split()) == [None, 1]
    both = alignment.agreed(model, WordModel([pair[::-1] for pair in PAIRS], rounds=10))
    assert both("The book", "Buch das") == [(1, 0), (0, 1)]


def test_no_words_are_refused():
    with pytest.raises(ValueError, match="no words to learn from"):
        WordModel([([], [])])


def test_unchanged_words_stand_once_on_each_side_and_are_no_marks():
    source, target = "Press F5 in Calc. The F6, the F6!", "Drücken Sie in CALC. F5 oder F6!"
    words = alignment.words_of(source)
    assert [words[i] for i, _ in alignment.unchanged(source, target)] == ["f5", "in", "calc"]


def test_links_join_all_pieces_of_the_source_to_the_first_of_the_target(translator):
    tokenizer = translator.tokenizer
    pair = "Format - Watermark 25", "Format – Wasserzeichen 25"
    (link,) = alignment.links(tokenizer, pair, [(2, 2)])
    ids = [tokenizer(side)["input_ids"] for side in pair]
    assert tokenizer.decode([ids[0][i] for i in link.pieces]) == link.source == "Watermark"
    assert len(link.pieces) > 1 and link.target == "Wasserzeichen"
    assert tokenizer.decode(ids[1][: link.row]) == "Format –"


def reading(best):
    return Reading(torch.tensor(best)[None, None], torch.zeros(1, 1, len(best)), 4)


def test_hits_look_at_the_row_before_or_after_the_word():
    found = [Link(0, (1, 2), "a", "b"), Link(2, (3,), "c", "d")]
    rows = reading([2, 0, 0, 3])
    assert alignment.hits(rows, found).flatten().tolist() == [True, False]
    assert alignment.hits(rows, found, 1).flatten().tolist() == [False, True]
    assert alignment.hits(rows, []).shape == (0, 1, 1)
    assert alignment.diagonal(rows, found).tolist() == [False, False]
    assert alignment.diagonal(rows, [Link(1, (1,), "", "")]).tolist() == [True]


def test_exchanged_links_never_keep_their_word():
    found = [Link(row, (row,), str(row), "") for row in range(7)]
    moved = alignment.exchanged(found)
    assert [link.row for link in moved] == list(range(7))
    assert sorted(link.pieces for link in moved) == [(row,) for row in range(7)]
    assert all(link.pieces != (link.row,) for link in moved)
    assert alignment.exchanged(found[:1]) == [Link(0, (), "", "")]
    assert alignment.exchanged([]) == []


def test_readings_are_those_of_single_texts_and_leave_the_end_out(translator):
    model, tokenizer = translator
    pairs = [
        ("Choose Format - Watermark.", "Wählen Sie Format – Wasserzeichen."),
        ("Insert a text.", "Fügt einen Text ein."),
    ]
    together = alignment.readings(model, pair_batches(tokenizer, pairs))
    for pair, each in zip(pairs, together, strict=True):
        (alone,) = alignment.readings(model, pair_batches(tokenizer, [pair]))
        sizes = [len(tokenizer(side)["input_ids"]) for side in pair]
        assert each.best.shape == (3, 8, sizes[1]) and each.sources == sizes[0] - 1
        assert torch.equal(each.best, alone.best) and each.best.max() < sizes[0] - 1
        assert torch.allclose(each.on_end, alone.on_end, atol=1e-5)


def test_word_links_and_rates_join_the_parts():
    texts = [(" ".join(source), " ".join(target)) for source, target in PAIRS]
    assert alignment.word_links(texts, rounds=10)("The book", "Buch das") == [(1, 0), (0, 1)]
    found = [[Link(0, (2,), "", ""), Link(1, (1,), "", "")], [], [Link(3, (3,), "", "")]]
    rate = alignment.hit_rate([reading([2, 0, 0, 3])] * 3, found)
    assert rate.tolist() == [[pytest.approx(2 / 3)]]
    nulls = alignment.null_rates([reading([2, 0, 0, 3])] * 3, found)
    assert nulls["diagonal"].tolist() == [[pytest.approx(2 / 3)]]  # by hand: places 0, 1 and 3 of 4
    assert nulls["exchanged"].tolist() == [[0.0]]
    later = alignment.null_rates([reading([2, 0, 0, 3])] * 3, found, 1)
    assert later["diagonal"].tolist() == [[pytest.approx(1 / 3)]]  # places 1, 2 and, the last row, 3
    assert later["exchanged"].tolist() == [[0.0]]
    crossed = [[Link(0, (2,), "", ""), Link(1, (0,), "", "")]]  # row 1 reads 0, row 2 reads 0; exchanged: 0, then 2
    assert alignment.null_rates([reading([2, 0, 0, 3])], crossed, 1)["exchanged"].tolist() == [[0.5]]
