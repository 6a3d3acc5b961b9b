"""Orders of heads, and curves along them."""

from __future__ import annotations

import families
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from utils.architectures import attentions
from utils.heads import Head, gated, heads_of
from utils.pruning import (
    HardConcreteGates,
    gate_order,
    greedy_order,
    order_by,
    prune,
    pruning_curve,
    random_order,
)

IDS = torch.randint(5, 100, (2, 7), generator=torch.Generator().manual_seed(0))


def change(whole: nn.Module):
    """How far a model's output is from that of ``whole``: 0 for the same."""
    inputs = {"input_ids": IDS} | ({"decoder_input_ids": IDS} if whole.config.is_encoder_decoder else {})
    with torch.no_grad():
        expected = whole(**inputs)[0]

    @torch.no_grad()
    def evaluate(model: nn.Module) -> float:
        return float((model(**inputs)[0] - expected).square().mean())

    return evaluate


@pytest.mark.parametrize("name", [name for name in families.FAMILIES if name != "t5"])
def test_a_curve_by_removing_equals_one_by_gating_and_loses_weights(make, name):
    model = make(name).model
    evaluate, order = change(model), random_order(model, 0)
    removed, gated_ = (
        pruning_curve(model, order, evaluate, fractions=[0, 0.5, 1], remove=remove) for remove in (True, False)
    )
    assert removed["value"].to_numpy() == pytest.approx(gated_["value"].to_numpy(), abs=1e-5)
    assert removed["value"][0] == 0 < removed["value"][2]
    assert (removed["parameters"].diff().dropna() < 0).all()
    count = sum(tensor.numel() for tensor in model.parameters())
    assert (gated_["parameters"] == count).all() and removed["parameters"][0] == count
    same = ["order", "seed", "kind", "fraction", "removed", "kept"]
    assert removed[same].equals(gated_[same])


def test_t5_has_a_curve_by_gating_and_is_refused_otherwise(make):
    model = make("t5").model
    frame = pruning_curve(
        model, random_order(model, 0, kind="cross"), change(model), fractions=[0, 0.25, 1], remove=False
    )
    assert list(frame["kind"]) == ["cross"] * 3 and list(frame["kept"]) == [8, 6, 0]
    with pytest.raises(ValueError, match="remove=False"):
        pruning_curve(model, random_order(model, 0), change(model))


def test_a_table_of_orders_and_seeds(make):
    model = make("bert").model
    evaluate, calls = change(model), []

    def counted(each: nn.Module) -> float:
        calls.append(len(heads_of(each)))
        assert not each.training
        return evaluate(each)

    model.train()
    orders = {"plain": heads_of(model), "random": {seed: random_order(model, seed) for seed in (3, 4)}}
    frame = pruning_curve(model, orders, counted, fractions=(0, 0.5, 1))
    assert list(frame.columns) == ["order", "seed", "kind", "fraction", "removed", "kept", "parameters", "value"]
    assert list(frame["order"]) == ["plain"] * 3 + ["random"] * 6
    assert frame["seed"].isna().tolist() == [True] * 3 + [False] * 6 and frame["seed"].tolist()[3:] == [3] * 3 + [4] * 3
    assert list(frame["removed"]) == [0, 6, 12] * 3 and list(frame["kept"]) == [12, 6, 0] * 3
    assert sorted(calls) == [0, 6, 6, 6, 12]  # nothing and everything removed are evaluated once
    assert model.training
    assert frame.groupby("fraction")["value"].nunique().tolist() == [1, 3, 1]


def test_a_pruned_model_has_a_curve_over_what_is_left(make):
    model = make("bert").model
    whole = heads_of(model)
    frame = pruning_curve(prune(model, whole[:4]), whole, change(model), fractions=[0, 0.5, 1])
    assert list(frame["kept"]) == [8, 4, 0]
    with pytest.raises(ValueError, match="no head that the model still has"):
        pruning_curve(prune(model, whole[:4]), whole[:4], change(model))


def test_tuning_inside_evaluate_touches_only_the_copy(make):
    model = make("bert").model
    before = families.state(model)

    def tuned(each: nn.Module) -> float:
        each(IDS).last_hidden_state.square().mean().backward()
        torch.optim.SGD(each.parameters(), lr=0.1).step()
        return each(IDS).last_hidden_state.square().mean()

    pruning_curve(model, random_order(model, 0), tuned, fractions=[0, 0.5])
    families.same(before, families.state(model))


# --- orders


def test_an_order_by_a_column_puts_the_smallest_first_within_a_kind_or_over_all():
    frame = pd.DataFrame(
        {"kind": ["encoder", "encoder", "cross"], "layer": [0, 1, 0], "head": [1, 0, 2], "signed": [0.3, -0.1, 0.2]}
    )
    first, second, third = Head(0, 1, "encoder"), Head(1, 0, "encoder"), Head(0, 2, "cross")
    assert order_by(frame, "signed") == [second, third, first]
    assert order_by(frame, "signed", largest_first=True) == [first, third, second]
    assert order_by(frame, "signed", kind="encoder") == [second, first]
    ties = frame.assign(signed=0.0)
    assert order_by(ties, "signed") == order_by(ties, "signed", largest_first=True) == [first, second, third]
    assert all(type(head.layer) is int for head in order_by(frame, "signed"))
    for options, message in [
        ({"column": "fisher"}, "no column 'fisher'"),
        ({"column": "kind"}, "no numbers"),
        ({"column": "signed", "kind": "decoder"}, "it has encoder, cross"),
    ]:
        with pytest.raises(ValueError, match=message):
            order_by(frame, **options)
    with pytest.raises(ValueError, match="no value"):
        order_by(frame.assign(signed=float("nan")), "signed")
    with pytest.raises(TypeError, match="row a head"):
        order_by([1, 2], "signed")


def test_random_orders_are_permutations_that_the_seed_fixes(make):
    model = make("translator").model
    orders = [random_order(model, seed) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == sorted(heads_of(model))
    assert {head.kind for head in random_order(model, 0, kind="cross")} == {"cross"}
    with pytest.raises(ValueError, match="it has encoder, decoder, cross"):
        random_order(model, 0, kind="other")


def test_gates_give_an_order_by_log_alpha(make):
    model = prune(make("bart").model, [Head(0, 0, "cross")])
    gates = HardConcreteGates(model, ["encoder", "cross"])
    gates.log_alpha["encoder"].data = torch.arange(12.0).view(3, 4).flip(0)
    gates.log_alpha["cross"].data[:] = -1.0
    order = gate_order(gates)
    assert order[:3] == [head for head in heads_of(model) if head.kind == "cross"]
    assert order[3:7] == [Head(2, head, "encoder") for head in range(4)] and len(order) == 15
    assert gate_order(gates, kind="cross") == order[:3]
    with pytest.raises(ValueError, match="there are encoder, cross"):
        gate_order(gates, kind="decoder")


def test_greedy_takes_the_best_next_head_each_time(make):
    model = make("marian").model
    evaluate, calls = change(model), []

    def counted(each: nn.Module) -> float:
        calls.append(1)
        return evaluate(each)

    order = greedy_order(model, counted, better="smaller", kind="cross")
    assert len(order) == 4 and len(calls) == 10
    left = [head for head in heads_of(model) if head.kind == "cross"]
    for place, head in enumerate(order):
        costs = {}
        for each in left:
            with gated(model, dict.fromkeys([*order[:place], each], 0.0)):
                costs[each] = evaluate(model)
        assert costs[head] == min(costs.values())
        left.remove(head)
    calls.clear()
    short = greedy_order(model, counted, better="smaller", kind="cross", first=2)
    assert short[:2] == order[:2] and sorted(short) == sorted(order) and len(calls) == 4 + 3
    assert greedy_order(model, lambda each: -evaluate(each), better="larger", kind="cross") == order


def test_greedy_is_not_worse_than_random_at_the_first_head(make):
    model = make("bert").model
    evaluate = change(model)
    orders = {"greedy": greedy_order(model, evaluate, better="smaller", first=1), "random": random_order(model, 1)}
    frame = pruning_curve(model, orders, evaluate, fractions=[1 / 12], remove=False)
    assert frame["value"][0] <= frame["value"][1]


# --- malformed input


@pytest.fixture(scope="module")
def bert(make):
    return make("bert").model


@pytest.mark.parametrize(
    ("change_", "message"),
    [
        ({"order": {}}, "no order"),
        ({"order": []}, "no head"),
        ({"order": [Head(0, 9)]}, "heads 0 to 3"),
        ({"order": "random"}, "heads must be a list"),
        ({"order": {"random": {"a": []}}}, "seeds to lists, got 'a'"),
        ({"fractions": [1.5]}, "from 0 to 1, got 1.5"),
        ({"fractions": [float("nan")]}, "from 0 to 1"),
        ({"fractions": []}, "from 0 to 1, got 'none'"),
        ({"fractions": 0.5}, "must be a list"),
        ({"evaluate": lambda model: None}, "return a number, got NoneType"),
        ({"evaluate": lambda model: "0.5"}, "return a number, got '0.5'"),
        ({"evaluate": None}, "evaluate must be a function"),
        ({"evaluate": lambda model: torch.ones(3)}, "return a number, got Tensor"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(bert, change_, message):
    arguments = {"order": [Head(0, 1)], "evaluate": lambda model: 0.0} | change_
    with pytest.raises((TypeError, ValueError), match=message):
        pruning_curve(bert, arguments.pop("order"), arguments.pop("evaluate"), **arguments)


def test_a_direction_and_a_count_are_checked(bert):
    with pytest.raises(ValueError, match="larger"):
        greedy_order(bert, lambda model: 0.0, better="up")
    with pytest.raises(ValueError, match="first"):
        greedy_order(bert, lambda model: 0.0, better="larger", first=0)
    for seed in ("a", 2**70, -1, True):
        with pytest.raises(TypeError, match="seed"):
            random_order(bert, seed)
    with pytest.raises(TypeError, match="HardConcreteGates"):
        gate_order(bert)
    with pytest.raises(ValueError, match=r"NaN without Head\(layer=0, head=1"):
        greedy_order(bert, nan_without(Head(0, 1)), better="larger")
    with pytest.raises(TypeError, match="evaluate must be a function"):
        greedy_order(bert, 0.5, better="larger")
    nothing = prune(bert, heads_of(bert))
    for make_order in (lambda: random_order(nothing, 0), lambda: greedy_order(nothing, len, better="larger")):
        with pytest.raises(ValueError, match="no head left: all were removed"):
            make_order()


def nan_without(head: Head):
    """An evaluate that gives NaN when a head of layer 0 is shut."""

    def evaluate(model):
        each = attentions(model)[0]
        z = torch.ones(1, 1, len(each.heads) * each.size)
        for hook in each.output._forward_pre_hooks.values():
            z = hook(each.output, (z,))[0]
        return float("nan") if each.split(z)[0, 0, head.head].sum() == 0 else 1.0

    return evaluate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(head=frame["head"] + 0.5), "whole numbers"),
        (lambda frame: frame.assign(layer=float("nan")), "whole numbers"),
        (lambda frame: pd.concat([frame, frame[["score"]]], axis=1), "the column 'score' twice"),
    ],
)
def test_a_table_whose_heads_are_unclear_is_refused(change, message):
    frame = pd.DataFrame({"kind": "encoder", "layer": [0, 0], "head": [1, 0], "score": [0.1, 0.2]})
    assert order_by(frame.astype({"layer": float, "head": float}), "score")[0] == Head(0, 1, "encoder")
    with pytest.raises(ValueError, match=message):
        order_by(change(frame), "score")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.one_of(
        st.none(),
        st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 4)), max_size=5),
        st.dictionaries(st.text(max_size=2), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)))),
        st.dictionaries(st.text(max_size=2), st.dictionaries(st.integers(), st.lists(st.integers()))),
    ),
    fractions=st.one_of(st.none(), st.lists(st.floats(), max_size=3), st.lists(st.floats(0, 1), min_size=1)),
)
def test_any_order_and_fractions_give_a_table_or_a_plain_refusal(bert, order, fractions):
    try:
        frame = pruning_curve(bert, order, lambda model: 0.0, fractions=fractions)
    except (TypeError, ValueError) as error:
        assert any(word in str(error) for word in ("head", "layer", "order", "fractions"))
    else:
        assert ((frame["removed"] + frame["kept"]) > 0).all()
