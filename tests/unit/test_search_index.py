"""A sentence encoder as a search engine: embeddings without padding, ranks, and a loss with the right gradient."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from utils.corpora import docstring_pairs
from utils.heads import ablated
from utils.importance import importance
from utils.search_index import (
    embed,
    pooled,
    query_losses,
    ranks,
    recall,
    reciprocal_rank,
    search_batches,
    search_loss,
    text_batches,
)

TEXTS = ["the cat sat", "a dog", "one more sentence that is much longer than the others", "the end"]


def test_an_embedding_does_not_depend_on_the_other_texts(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    together = embed(model, tokenizer, TEXTS, size=3)
    alone = torch.cat([embed(model, tokenizer, [text]) for text in TEXTS])
    assert together.shape == (4, model.config.hidden_size)
    assert torch.allclose(together, alone, atol=1e-5)
    assert torch.allclose(together.norm(dim=-1), torch.ones(4), atol=1e-5)


def test_an_embedding_is_the_mean_of_the_real_tokens_scaled_to_one(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    with torch.no_grad():
        states = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0]
    assert torch.allclose(embed(model, tokenizer, TEXTS)[0], normalize(states.mean(0), dim=0), atol=1e-5)


def test_an_ablation_around_the_call_reaches_the_embedding_and_ends_with_it(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    before = embed(model, tokenizer, TEXTS)
    with ablated(model, [(0, 0)]):
        changed = embed(model, tokenizer, TEXTS)
    assert not torch.allclose(before, changed, atol=1e-4)
    assert torch.equal(before, embed(model, tokenizer, TEXTS))


def test_batches_keep_the_order_of_texts_and_of_pairs(tiny_bert):
    tokenizer = tiny_bert.tokenizer
    assert [len(batch["input_ids"]) for batch in text_batches(tokenizer, TEXTS, 3)] == [3, 1]
    pairs = list(zip(TEXTS[:3], reversed(TEXTS), strict=False))
    first = search_batches(tokenizer, pairs, 3)[0]["input_ids"]
    expected = [*(query for query, _ in pairs), *(passage for _, passage in pairs)]
    assert torch.equal(first, tokenizer(expected, return_tensors="pt", padding=True)["input_ids"])


def test_ranks_count_the_passages_that_are_nearer_and_ties_against():
    queries = torch.eye(3)
    passages = torch.stack([queries[0], queries[0], queries[2], queries[1]])
    assert ranks(queries, passages).tolist() == [2, 4, 1]  # a tie; one nearer and two as far; alone at the top


def test_recall_and_reciprocal_rank_of_known_places():
    places = torch.tensor([1, 2, 4, 1])
    assert recall(places) == 0.5
    assert recall(places, 2) == 0.75
    assert reciprocal_rank(places) == pytest.approx((1 + 0.5 + 0.25 + 1) / 4)


def test_the_loss_is_that_of_choosing_at_random_when_all_are_alike_and_falls_with_the_right_answer():
    same = torch.ones(8, 4) / 2
    assert query_losses(same, same).tolist() == pytest.approx([math.log(8)] * 8)
    own = torch.eye(4)
    by_hand = -math.log(math.exp(20) / (math.exp(20) + 3))
    assert query_losses(own, own).tolist() == pytest.approx([by_hand] * 4, abs=1e-6)


def test_the_loss_of_a_batch_is_that_of_its_embeddings_and_has_a_gradient_for_every_layer(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    pairs = list(zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True))
    batch = search_batches(tokenizer, pairs)[0]
    queries, passages = (embed(model, tokenizer, side) for side in zip(*pairs, strict=True))
    with torch.no_grad():
        value = search_loss(model(**batch), batch)
    assert float(value) == pytest.approx(float(query_losses(queries, passages).mean()), abs=1e-4)
    scores = importance(model, [batch], search_loss)
    assert (scores.absolute > 0).all()


def test_minilm_finds_the_documentation_far_above_chance(minilm):
    queries, passages = zip(*docstring_pairs(60), strict=True)
    places = ranks(embed(*minilm, queries), embed(*minilm, passages))
    assert recall(places) > 0.6 > 10 / 60
    assert recall(places, 5) > recall(places)


@pytest.mark.parametrize(
    "texts, error, words",
    [
        ("one text", TypeError, "list of str, got one str"),
        ([], ValueError, "no texts"),
        (["fine", ""], ValueError, "text 1 is empty"),
        ([3], TypeError, "text 0 must be one str"),
        (["word " * 2000], ValueError, "tokens and the model reads"),
    ],
)
def test_texts_are_checked(tiny_bert, texts, error, words):
    with pytest.raises(error, match=words):
        embed(tiny_bert.model, tiny_bert.tokenizer, texts)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda t: search_batches(t, ["ab", "cd"]), TypeError, "a pair is"),
        (lambda t: search_batches(t, [("a", "b")]), ValueError, "nothing competes"),
        (lambda t: search_batches(t, [("a", "b")] * 5, 2), ValueError, "nothing competes"),
        (lambda t: text_batches(t, ["a"], 0), ValueError, "size must be"),
        (lambda t: ranks(torch.eye(3), torch.eye(4)), ValueError, "one width"),
        (lambda t: ranks(torch.eye(3), torch.eye(3)[:2]), ValueError, "each query needs its own"),
        (lambda t: query_losses(torch.eye(3)[0], torch.eye(3)), ValueError, "must be \\(number, width\\)"),
        (lambda t: recall(torch.tensor([1]), 0), ValueError, "k must be"),
        (lambda t: recall(torch.tensor([0.5])), ValueError, "whole numbers from 1"),
        (lambda t: reciprocal_rank(torch.tensor([], dtype=torch.long)), ValueError, "at least one"),
    ],
)
def test_pairs_and_numbers_are_checked(tiny_bert, call, error, words):
    with pytest.raises(error, match=words):
        call(tiny_bert.tokenizer)


def test_a_mask_of_another_shape_is_refused(tiny_bert):
    _, model, tokenizer = tiny_bert[:3]
    batch = text_batches(tokenizer, TEXTS)[0]
    outputs = model(**batch)
    with pytest.raises(ValueError, match="attention_mask is"):
        pooled(outputs, batch | {"attention_mask": batch["attention_mask"][:, :2]})
