"""The stored curves of Lab 3 are about the shipped model and corpus, and agree with a fresh run at spot points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from utils import pruned_retrieval as pr
from utils import pruning_costs as pc
from utils.corpora import DATA
from utils.heads import Head, heads_of
from utils.models import MINILM_SHA256, sha256
from utils.pruning import greedy_order, prune, pruning_curve, random_order
from utils.search_index import pooled, ranks, recall, search_batches, search_loss, text_batches
from utils.sweeps import sweep

NAMES = ["pruning_simulation", "pruning_recovery"]
TEXTS = ["Return a list.", "Open the file and read its lines.", "Close it.", "A class of numbers that can be added."]
PAIRS = list(zip(TEXTS, TEXTS[::-1], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_sweep_is_about_the_model_and_the_texts_in_data(name):
    made = sweep(name)["made"]
    assert made["model"] == MINILM_SHA256 and made["corpus"] == sha256(DATA / "docstrings.jsonl")
    assert made["judged on"] == len(pr.split_pairs().judged)


def test_the_times_are_of_minilm_in_every_case():
    table = pc.timed()
    assert sweep("pruning_latency")["made"]["model"] == MINILM_SHA256
    cases = table[table["how"] == "removed"].groupby(["texts", "kept"]).size()
    assert (cases == 2).all() and len(cases) == 2 * len(pr.SHARES)


def test_the_simulator_draws_what_a_fresh_pruning_curve_finds(minilm):
    """Three spot points: an order by score, a random one, one that was ranked again."""
    paths = {path.name: path for path in pc.simulator_paths()}
    judged = pr.split_pairs().judged
    spots = [("signed", None, 0.75), ("random", 1, 0.5), ("fisher, iterative", None, 0.75)]
    table = pc.curves()
    for name, seed, share in spots:
        order = random_order(minilm.model, seed) if name == "random" else pc.orders()[name]

        def found(model):
            return recall(ranks(*pr.vectors(model, minilm.tokenizer, judged)))

        fresh = pruning_curve(minilm.model, order, found, fractions=[share]).iloc[0]
        rows = table[(table["order"] == name) & (table["kept"] == fresh["kept"])]
        stored = rows[rows["seed"] == seed]["recall@1"] if name == "random" else rows["recall@1"]
        assert fresh["value"] == pytest.approx(stored.item(), abs=0.01)  # two of 219 queries
        assert fresh["parameters"] == pc.predicted_parameters(int(fresh["kept"]))
        path = paths[pc.NAMES.get(name, name)]
        step = path.kept.tolist().index(fresh["kept"])
        if name == "random":
            assert path.low[step] <= stored.item() <= path.high[step]
        else:
            assert path.value[step] == pytest.approx(stored.item())
            kept = {tuple(place) for place in np.argwhere(path.masks[step]).tolist()}
            assert kept == {head[:2] for head in heads_of(prune(minilm.model, order[: 72 - fresh["kept"]]))}


def test_every_order_holds_each_head_once_and_every_step_is_there():
    for order in pc.orders().values():
        assert sorted(head[:2] for head in order) == [(layer, head) for layer in range(6) for head in range(12)]
    counts = pc.curves().groupby(["order", "seed"], dropna=False)["kept"].agg(list)
    assert all(sorted(kept) == [0, 6, 18, 36, 54, 72] for kept in counts) and len(counts) == len(pc.orders()) + 5


@pytest.mark.parametrize(("kept", "texts", "tokens"), [(72, 1, 16), (30, 2, 16), (0, 1, 24)])
def test_predicted_operations_are_those_that_torch_counts(minilm, kept, texts, tokens):
    model = prune(minilm.model, random_order(minilm.model, 0)[: 72 - kept]).eval()
    model.set_attn_implementation("eager")
    ids = torch.ones(texts, tokens, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=torch.ones_like(ids))
    assert counter.get_total_flops() == pytest.approx(pc.predicted_flops(kept, texts, tokens), rel=2e-3)
    assert sum(p.numel() for p in model.parameters()) == pc.predicted_parameters(kept)


@pytest.mark.parametrize("kept", [-1, 73, 3.5, [1, 80]])
def test_numbers_of_heads_that_minilm_does_not_have_are_refused(kept):
    with pytest.raises(ValueError, match="0 to 72"):
        pc.predicted_flops(kept)


def test_latency_lies_between_the_measured_numbers():
    ends = pc.latency([36, 18], 16)
    assert ends.min() < pc.latency([27], 16)[0] < ends.max()
    with pytest.raises(ValueError, match="were not timed"):
        pc.latency([36], 7)


def test_plans_are_the_stored_ways_with_their_costs():
    plans = pc.plans()
    assert plans["plan"].is_unique and plans["plan"].iloc[0] == "all 72"
    assert plans["ms"].max() == plans["ms"].iloc[0] > plans["ms"].min()
    assert plans["MB"].iloc[0] == pytest.approx(90.85, abs=0.01)
    assert not plans["plan"].str.contains("random").any()


def test_the_greedy_order_is_that_of_the_books_function(tiny_bert):
    model, tokenizer = tiny_bert.model, tiny_bert.tokenizer
    batches = search_batches(tokenizer, PAIRS, 4)

    @torch.no_grad()
    def loss(pruned):
        return float(search_loss(pruned(**batches[0]), batches[0]))

    expected = greedy_order(model, loss, better="smaller")
    assert pr.greedy_by_loss(model, batches) == expected
    assert sorted(pr.greedy_by_loss(model, batches, together=3)) == sorted(expected)


def test_iterative_orders_rank_again_what_is_left(tiny_bert):
    model, tokenizer = tiny_bert.model, tiny_bert.tokenizer
    total, shares = len(heads_of(model)), (0.0, 0.5, 1.0)
    order = pr.iterative_order(model, tokenizer, PAIRS, "signed", shares)
    table = pr.ranking(model, tokenizer, PAIRS)
    first = pr.order_by(table, "signed")[: round(total / 2)]
    then = pr.order_by(pr.ranking(prune(model, first), tokenizer, PAIRS), "signed")
    assert order == first + then
    assert pr.iterative_order(model, tokenizer, PAIRS, "signed", shares, first=table) == order


def test_judged_compares_old_and_new_vectors():
    eye = torch.eye(4)
    old, turned = pr.Vectors(eye, eye), pr.Vectors(eye.roll(1, 0), eye.roll(1, 0))
    same, moved = pr.judged(_many(old), _many(old)), pr.judged(_many(old), _many(turned))
    assert same["cosine"] == same["kept of ten"] == 1 and same["moved"] == 0
    assert moved["recall@1"] == 1 and moved["mixed recall@1"] == 0  # all turned the same way: rebuild, and all is well
    assert moved["cosine"] == pytest.approx(2 / 3)  # the other eight of twelve stayed
    with pytest.raises(ValueError, match="of one shape"):
        pr.cosines(eye, eye[:2])


def _many(pair):
    """Twelve passages, of which four answer."""
    wide = torch.cat([pair.passages, torch.zeros(4, 8)], dim=1)
    filler = torch.cat([torch.zeros(8, 4), torch.eye(8)], dim=1)
    return pr.Vectors(torch.cat([pair.queries, torch.zeros(4, 8)], dim=1), torch.cat([wide, filler]))


def test_the_interval_of_no_change_is_zero_and_of_a_loss_below_it():
    before = torch.ones(200, dtype=torch.long)
    assert pr.interval(before, before) == (0.0, 0.0)
    low, high = pr.interval(before, torch.where(torch.arange(200) < 40, 3, before))
    assert low < -0.2 < high < 0
    with pytest.raises(ValueError, match="same queries"):
        pr.interval(before, before[:3])


def test_distillation_turns_vectors_to_those_of_the_teacher(tiny_bert):
    teacher, tokenizer = tiny_bert.model, tiny_bert.tokenizer
    batches = text_batches(tokenizer, TEXTS, 4)
    student = prune(teacher, [Head(0, 0), Head(0, 1), Head(1, 0)])

    def distance(model):
        with torch.no_grad():
            ours, theirs = (pooled(each(**batches[0]), batches[0]) for each in (model, teacher))
        return float((1 - (ours * theirs).sum(-1)).mean())

    before, kept = distance(student), [p.clone() for p in teacher.parameters()]
    pr.distil(student, teacher, batches, steps=30, learning_rate=1e-3)
    assert distance(student) < 0.5 * before
    assert all(torch.equal(a, b) for a, b in zip(kept, teacher.parameters(), strict=True))


def test_gates_that_are_stored_close_what_their_rows_say():
    for row in sweep("pruning_recovery")["gates"]:
        assert len({tuple(place) for place in row["heads"]}) == row["kept"] <= 72


def test_the_paths_of_the_translator_hold_its_three_types():
    paths = {path.name: path for path in pc.translator_paths()}
    assert all(path.masks is None or path.masks.shape[1:] == (12, 8) for path in paths.values())
    gates = paths["encoder gates, tuned"]
    assert gates.masks[:, 6:].all() and (gates.kept - gates.masks[:, :6].sum((1, 2)) == 48).all()
