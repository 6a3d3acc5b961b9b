"""Losses, masks and shared heads of the translator."""

from __future__ import annotations

import pytest
import torch

from utils import encoder_decoder as ed
from utils import target_tokens
from utils.architectures import attentions
from utils.heads import Head, ablated
from utils.models import load

PAIRS = [
    ("Choose Format - Watermark.", "Wählen Sie Format – Wasserzeichen."),
    ("Insert a text.", "Fügt einen Text ein."),
]


@pytest.fixture(scope="module")
def translator():
    return load("translator-small-1")


def test_losses_are_those_of_each_text_alone(translator):
    model, tokenizer = translator
    together = ed.token_losses(model, ed.pair_batches(tokenizer, PAIRS))
    for pair, losses in zip(PAIRS, together.by_text(), strict=True):
        (batch,) = ed.pair_batches(tokenizer, [pair])
        outputs = model(**batch)
        assert float(losses.mean()) == pytest.approx(outputs.loss.item(), abs=1e-4)
        assert len(losses) == batch["labels"].shape[1]
        assert float(ed.text_losses(outputs, batch).detach()) == pytest.approx(outputs.loss.item(), abs=1e-4)
    assert together.mean == pytest.approx(float(torch.cat(together.by_text()).mean()), abs=1e-6)
    parts = ed.token_losses(model, ed.pair_batches(tokenizer, PAIRS, size=1))
    assert parts.mean == pytest.approx(together.mean, abs=1e-5)


def test_gates_around_the_call_count(translator):
    model, tokenizer = translator
    batches = ed.pair_batches(tokenizer, PAIRS)
    with ablated(model, [Head(2, head, "cross") for head in range(8)]):
        assert ed.token_losses(model, batches).mean > ed.token_losses(load("translator-small-1").model, batches).mean


def test_logits_with_the_mask_are_the_models_and_without_it_they_see_the_future(translator):
    model, tokenizer = translator
    (batch,) = ed.pair_batches(tokenizer, PAIRS)
    model.eval()
    with torch.no_grad():
        own, open_ = model(**batch).logits, ed.decoder_logits(model, batch, causal=False)
        assert torch.allclose(ed.decoder_logits(model, batch), own, atol=1e-4)
    assert (open_[:, 0] - own[:, 0]).abs().max() > 0.1


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_shared_heads_have_the_mean_of_their_group_and_the_rest_stays(translator, groups):
    model = translator.model
    shared = ed.with_shared_heads(model, "cross", groups)
    for before, after in zip(attentions(model), attentions(shared), strict=True):
        for part in ("query", "key", "value", "output"):
            old, new = getattr(before, part).weight, getattr(after, part).weight
            if before.kind != "cross" or part in ("query", "output"):
                assert torch.equal(old, new)
                continue
            old, new = (each.unflatten(0, (groups, 8 // groups, 12)) for each in (old, new))
            assert torch.allclose(new, old.mean(1, keepdim=True).expand_as(old), atol=1e-6)


def test_sharing_by_an_order_joins_those_that_stand_together(translator):
    model, order = translator.model, [0, 4, 1, 5, 2, 6, 3, 7]
    shared = ed.with_shared_heads(model, "decoder", 4, order=order, parts=["value"])
    old, new = (m.decoder.layers[0].attention.value.bias.detach().unflatten(0, (8, -1)) for m in (model, shared))
    assert torch.allclose(new[1], (old[1] + old[5]) / 2, atol=1e-6) and torch.equal(new[1], new[5])
    assert torch.equal(shared.decoder.layers[0].attention.key.weight, model.decoder.layers[0].attention.key.weight)


def test_sharing_all_heads_with_themselves_changes_nothing(translator):
    model, tokenizer = translator
    batches = ed.pair_batches(tokenizer, PAIRS)
    shared = ed.with_shared_heads(model, "encoder", 8)
    assert ed.token_losses(shared, batches).mean == pytest.approx(ed.token_losses(model, batches).mean, abs=1e-6)


def test_a_hidden_piece_is_one_that_no_cross_head_reads(translator):
    model, tokenizer = translator
    (batch,) = ed.pair_batches(tokenizer, PAIRS[:1])
    nothing, something = ed.losses_without_source(model, batch, [(), (0, 1)])
    whole = ed.token_losses(model, [batch]).losses[0]
    assert torch.allclose(nothing, whole, atol=1e-4) and (something - whole).abs().max() > 0.01
    every = range(batch["input_ids"].shape[1])
    (blind,) = ed.losses_without_source(model, batch, [every])
    with torch.no_grad(), ablated(model, [Head(layer, head, "cross") for layer in range(3) for head in range(8)]):
        assert torch.allclose(blind, ed.token_losses(model, [batch]).losses[0], atol=1e-4)


def test_an_interval_holds_the_mean_and_narrows_with_more_texts():
    parts = list(torch.randn(40, 5, generator=torch.Generator().manual_seed(0)))
    mean, low, high = ed.interval(parts)
    assert mean == pytest.approx(float(torch.stack(parts).mean()), abs=1e-6) and low < mean < high
    theory = 2 * 1.96 * float(torch.stack(parts).mean(1).std() / 40**0.5)
    assert high - low == pytest.approx(theory, rel=0.2)
    _, low_16, high_16 = ed.interval(parts * 16)
    assert high_16 - low_16 == pytest.approx((high - low) / 4, rel=0.25)
    assert ed.interval([torch.ones(2), torch.zeros(0)])[0] == 1.0


def test_token_classes(translator):
    tokenizer = translator.tokenizer
    labels = tokenizer(["Klicken Sie auf die Wasserzeichen."], return_tensors="pt")["input_ids"]
    (classes,) = target_tokens.token_classes(tokenizer, torch.nn.functional.pad(labels, (0, 3), value=-100))
    pieces = tokenizer.convert_ids_to_tokens(labels[0].tolist())
    found = dict(zip(pieces, classes, strict=True))
    assert found["▁auf"] == found["▁die"] == found["▁Sie"] == "function word"
    assert found["▁W"] == "other word, first piece" and found["zeichen"] == "other word, later piece"
    assert found["."] == "mark" and classes[-1] == "end" and set(classes) == set(target_tokens.CLASSES)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, t: ed.pair_batches(t, []), ValueError, "no pairs"),
        (lambda m, t: ed.pair_batches(t, ["ab"]), TypeError, "two strings"),
        (lambda m, t: ed.token_losses(m, [{"input_ids": torch.ones(1, 2)}]), ValueError, "needs labels"),
        (lambda m, t: ed.token_losses(m.encoder, ed.pair_batches(t, PAIRS)), TypeError, "such as the translator"),
        (lambda m, t: ed.with_shared_heads(m, "both", 2), ValueError, "encoder, decoder, cross"),
        (lambda m, t: ed.with_shared_heads(m, "cross", 3), ValueError, "a divisor of 8"),
        (lambda m, t: ed.with_shared_heads(m, "cross", 2, parts=["query"]), ValueError, "some of"),
        (lambda m, t: ed.with_shared_heads(m, "cross", 2, order=[0] * 8), ValueError, "each of 0 to 7 once"),
        (lambda m, t: ed.losses_without_source(m, ed.pair_batches(t, PAIRS)[0], [()]), ValueError, "the batch has 2"),
        (lambda m, t: ed.interval([torch.zeros(0)]), ValueError, "no values"),
    ],
)
def test_what_does_not_fit_is_refused(translator, call, error, message):
    with pytest.raises(error, match=message):
        call(*translator)


def test_the_future_has_no_effect_behind_the_mask_and_some_without_it(translator):
    model, tokenizer = translator
    (batch,) = ed.pair_batches(tokenizer, PAIRS)
    assert ed.future_effect(model, batch, 2) == 0.0
    assert ed.future_effect(model, batch, 2, causal=False) > 0.1
    with ablated(model, [Head(layer, head, "decoder") for layer in range(3) for head in range(8)]):
        assert ed.future_effect(model, batch, 2, causal=False) == 0.0
    with pytest.raises(ValueError, match="two texts or more"):
        ed.future_effect(model, ed.pair_batches(tokenizer, PAIRS[:1])[0], 2)


def test_extra_losses_are_differences_to_the_whole_model(translator):
    model, tokenizer = translator
    batches = ed.pair_batches(tokenizer, PAIRS)
    removals = [[Head(0, 1, "cross")], [Head(2, head, "cross") for head in range(8)]]
    removals += [[Head(1, head, "encoder") for head in range(8)] + [Head(0, 0, "decoder")]]
    found = ed.extra_losses(model, batches, removals)
    for heads, extra in zip(removals, found, strict=True):
        with ablated(model, heads):
            without = ed.token_losses(model, batches).mean
        assert without - extra == pytest.approx(ed.token_losses(model, batches).mean, abs=1e-6)
    assert found[1] > 0


def test_losses_with_hidden_pieces_are_those_of_one_run_each(translator):
    model, tokenizer = translator
    rows, hidden = [[0, 3], []], [[(0,), (1, 2)], []]
    first, second = ed.losses_hiding(model, tokenizer, PAIRS, rows, hidden)
    (batch,) = ed.pair_batches(tokenizer, PAIRS[:1])
    for place, row in enumerate(rows[0]):
        (alone,) = ed.losses_without_source(model, batch, [hidden[0][place]])
        assert float(first[place]) == pytest.approx(float(alone[row]), abs=1e-4)
    assert len(second) == 0
    with pytest.raises(ValueError, match="as many lists"):
        ed.losses_hiding(model, tokenizer, PAIRS, [[0], []], [[], []])


def test_a_ratio_is_one_of_sums_and_its_interval_holds_it():
    below = [torch.full((size,), 2.0) for size in (1, 4, 2, 3)]
    above = [part * factor for part, factor in zip(below, (0.5, 0.1, 0.4, 0.3), strict=True)]
    mean, low, high = target_tokens.ratio(above, below)
    assert mean == pytest.approx((0.5 * 1 + 0.1 * 4 + 0.4 * 2 + 0.3 * 3) / 10) and 0.1 <= low < mean < high <= 0.5
    assert target_tokens.ratio([2 * part for part in below], below) == pytest.approx((2, 2, 2))
    with pytest.raises(ValueError, match="same texts"):
        target_tokens.ratio(above[1:], below)
    with pytest.raises(ValueError, match="no ratio"):
        target_tokens.ratio(above, [torch.zeros(1)] * 4)
