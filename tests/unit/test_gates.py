"""Hard-Concrete gates: their distribution, their penalty, and what training them closes."""

from __future__ import annotations

import math

import families
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from utils.architectures import attentions
from utils.attention import MultiHeadAttention
from utils.heads import Head, gated, heads_of
from utils.pruning import HardConcreteGates, fit_gates, prune


def batches(n: int, seed: int = 0) -> list[dict]:
    """Texts for a tiny BERT, each batch with padding."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(4, 8, dtype=torch.long)
    mask[0, 5:] = 0
    return [{"input_ids": torch.randint(5, 100, (4, 8), generator=generator), "attention_mask": mask} for _ in range(n)]


def targets(model: nn.Module, data: list[dict], without: list[Head] = ()) -> list[dict]:
    """The model's own outputs, without some heads, beside its inputs."""
    with torch.no_grad(), gated(model, dict.fromkeys(without, 0.0)):
        return [Data(batch, model(**batch).last_hidden_state) for batch in data]


class Data(dict):
    """A batch that remembers what should come out."""

    def __init__(self, batch: dict, target: torch.Tensor):
        super().__init__(batch)
        self.target = target


def distance(outputs, batch: Data) -> torch.Tensor:
    """Squared distance to the target on real tokens, a value a text."""
    mask = batch["attention_mask"][..., None]
    return ((outputs.last_hidden_state - batch.target).square() * mask).sum((1, 2)) / mask.sum((1, 2))


def silence(model: nn.Module, heads: list[Head]) -> None:
    """Make heads useless: whatever they say, the output projection does not hear it."""
    for each in attentions(model):
        for head in heads:
            if (each.kind, each.layer) == (head.kind, head.layer):
                each.output.weight.data[:, head.head * each.size : (head.head + 1) * each.size] = 0


# --- the distribution


@pytest.mark.parametrize(("temperature", "stretch"), [(2 / 3, (-0.1, 1.1)), (0.33, (-0.1, 1.1)), (0.5, (-0.3, 1.2))])
@pytest.mark.parametrize("start", [-3.0, -1.0, 0.0, 2.0])
def test_the_penalty_is_the_probability_of_a_gate_above_zero(temperature, stretch, start):
    model = MultiHeadAttention(8, 2)
    gates = HardConcreteGates(model, temperature=temperature, stretch=stretch, start=start)
    torch.manual_seed(0)
    drawn = torch.stack([gates()["encoder"].detach() for _ in range(4000)])
    expected = float(gates.penalty().detach()) / 2
    assert float((drawn > 0).float().mean()) == pytest.approx(expected, abs=0.015)
    by_hand = 1 / (1 + math.exp(-(start - temperature * math.log(-stretch[0] / stretch[1]))))
    assert expected == pytest.approx(by_hand, abs=1e-6)
    assert 0 <= drawn.min() and drawn.max() <= 1


def test_gates_are_exactly_zero_and_one_with_positive_probability_and_have_gradients():
    gates = HardConcreteGates(MultiHeadAttention(8, 2), start=0.0)
    torch.manual_seed(0)
    drawn = torch.stack([gates()["encoder"] for _ in range(500)])
    share = [float((drawn == edge).float().mean()) for edge in (0, 1)]
    assert all(0.1 < each < 0.4 for each in share) and share[0] == pytest.approx(share[1], abs=0.06)
    drawn.sum().backward()
    assert (gates.log_alpha["encoder"].grad > 0).all()


def test_gates_at_evaluation_follow_the_papers_formula():
    gates = HardConcreteGates(MultiHeadAttention(16, 4)).eval()
    gates.log_alpha["encoder"].data = torch.tensor([[-4.0, -1.0, 1.0, 4.0]])
    expected = np.clip(1 / (1 + np.exp(-np.array([-4.0, -1.0, 1.0, 4.0]))) * 1.2 - 0.1, 0, 1)
    assert gates()["encoder"][0].tolist() == pytest.approx(expected, abs=1e-6)
    assert torch.equal(gates()["encoder"], gates()["encoder"])
    assert gates.closed_heads() == [Head(0, 0, "encoder")]
    assert gates.open_heads() == [Head(0, head, "encoder") for head in (1, 2, 3)]
    gates.log_alpha["encoder"].data = torch.tensor([[-2.41, -2.39, 2.39, 2.41]])
    assert [float(each) > 0 for each in gates()["encoder"][0].detach()] == [False, True, True, True]
    assert [float(each) < 1 for each in gates()["encoder"][0].detach()] == [True, True, True, False]


def test_gates_of_removed_heads_count_nowhere(make):
    model = prune(make("bert").model, [Head(0, 1), Head(2, 3)])
    gates = HardConcreteGates(model)
    assert gates.open_heads() == heads_of(model) and gates.closed_heads() == []
    assert float(gates.penalty().detach()) == pytest.approx(10 / (1 + math.exp(-2 - 2 / 3 * math.log(11))), rel=1e-5)
    gates.log_alpha["encoder"].data[:] = -5
    assert gates.closed_heads() == heads_of(model)


@pytest.mark.parametrize("name", families.FAMILIES)
def test_gates_fit_every_family_and_kind(make, name):
    model = make(name).model
    gates = HardConcreteGates(model)
    assert gates.open_heads() == heads_of(model)
    kind = heads_of(model)[-1].kind
    only = HardConcreteGates(model, [kind])
    assert only.kinds == [kind] == HardConcreteGates(model, kind).kinds
    assert only.open_heads() == [head for head in heads_of(model) if head.kind == kind]
    with gated(model, only()), torch.no_grad():
        ids = torch.randint(5, 100, (2, 6))
        model(input_ids=ids, **({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}))


# --- training


@pytest.mark.parametrize("seed", range(5))
def test_exactly_the_useless_heads_close(make, seed):
    model = make("bert", seed=seed).model
    heads = heads_of(model)
    order = torch.randperm(len(heads), generator=torch.Generator().manual_seed(seed)).tolist()
    silent, harmful = ([heads[i] for i in some] for some in (order[:3], order[3:5]))
    silence(model, silent)
    data = targets(model, batches(6, seed), without=harmful)
    gates, frame = fit_gates(model, data, distance, penalty=0.004, steps=100, gate_rate=0.3, seed=seed)
    useless = sorted(silent + harmful)
    assert gates.closed_heads() == useless
    assert frame["open"].iloc[-1] == len(heads) - len(useless) == len(gates.open_heads())
    with torch.no_grad():
        left = prune(model, gates.closed_heads())(**data[0]).last_hidden_state
    assert torch.allclose(left, data[0].target, atol=1e-5)


def test_a_higher_penalty_leaves_fewer_heads_and_none_is_free(make):
    model = make("bert").model
    data = targets(model, batches(4))
    left = []
    for penalty in (0.0, 0.4, 3.0):
        gates, frame = fit_gates(model, data, distance, penalty=penalty, steps=50, gate_rate=0.3)
        left.append(len(gates.open_heads()))
        assert frame["open"].iloc[-1] == frame["open_encoder"].iloc[-1] == left[-1]
        assert frame["expected"].iloc[-1] == pytest.approx(float(gates.penalty().detach()))
        assert not gates.training
    assert left[0] == 12 > left[1] > left[2] == 0


def test_only_the_kinds_asked_for_are_gated(make):
    model = make("translator").model
    ids = torch.randint(5, 100, (2, 6))
    batch = {"input_ids": ids, "labels": ids}
    gates, frame = fit_gates(
        model, batch, lambda out, _: out.loss, kinds="encoder", penalty=1.0, steps=60, gate_rate=0.2
    )
    assert gates.kinds == ["encoder"] and gates.open_heads() == []
    assert list(frame.columns) == ["step", "loss", "expected", "open", "open_encoder"]
    with pytest.raises(ValueError, match="know their kinds"):
        fit_gates(model, batch, lambda out, _: out.loss, gates=gates, kinds="cross", penalty=0, steps=1)
    assert len(fit_gates(model, batch, lambda out, _: out.loss, gates=gates, penalty=0, steps=3)[1]) == 3


def test_what_is_frozen_stays_and_the_rest_is_tuned(make):
    family = make("translator")
    model, ids = family.model, torch.randint(5, 100, (2, 6))
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    batch = {"input_ids": ids, "labels": ids}
    fit_gates(model, batch, lambda out, _: out.loss, penalty=0.0, steps=2, frozen=["decoder", "encoder.embedding"])
    moved = {name for name, tensor in model.named_parameters() if not torch.equal(tensor, before[name])}
    assert moved and all(name.startswith(("encoder.layers", "encoder.norm")) for name in moved)
    _, frame = fit_gates(
        model, batch, lambda out, _: out.loss, penalty=0.0, steps=25, frozen=(), rate=1e-2, dropout=True
    )
    assert frame["loss"].iloc[-1] < 0.7 * frame["loss"].iloc[0]


def test_flags_modes_gradients_and_random_state_are_as_before(make):
    model = make("bert").model
    model.encoder.layer[0].train()
    model.embeddings.word_embeddings.weight.requires_grad_(False)
    model.pooler.dense.weight.grad = torch.ones_like(model.pooler.dense.weight)
    data = targets(model, batches(2))
    torch.manual_seed(3)
    before, random = families.state(model), torch.get_rng_state()
    fit_gates(model, data, distance, penalty=0.01, steps=3)
    assert torch.equal(random, torch.get_rng_state())
    families.same(before, families.state(model))
    before = families.state(model)
    with pytest.raises(RuntimeError, match="mine"):
        fit_gates(model, data, failing, penalty=0.01, steps=3, frozen=(), dropout=True)
    families.same(before, families.state(model))
    assert model.pooler.dense.weight.grad.eq(1).all()
    assert model.embeddings.word_embeddings.weight.grad is None


def failing(_outputs, _batch):
    raise RuntimeError("mine")


def test_the_seed_fixes_the_run(make):
    model = make("bert").model
    data = targets(model, batches(3))
    runs = [fit_gates(model, data, distance, penalty=0.02, steps=8, seed=seed)[1] for seed in (1, 1, 2)]
    assert runs[0].equals(runs[1]) and not runs[0].equals(runs[2])


@pytest.mark.parametrize("frozen", ["all", ()])
@pytest.mark.parametrize("name", [name for name in families.FAMILIES if name != "translator"])  # which has none
def test_gradient_checkpointing_changes_nothing(make, name, frozen):
    """Layers are run again on the way back: under the same gates."""
    runs = []
    for checkpointing in (False, True):
        model = make(name).model
        for module in model.modules():  # dropout would draw anew
            module.p = 0.0 if isinstance(module, nn.Dropout) else getattr(module, "p", None)
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
        if checkpointing:
            model.activation_checkpointing_enable()
        data = batches(1)
        if model.config.is_encoder_decoder:
            data = [each | {"decoder_input_ids": each["input_ids"]} for each in data]
        gates, _ = fit_gates(model, data, size, penalty=0.05, steps=3, dropout=True, frozen=frozen)
        runs.append(torch.cat([each.detach().flatten() for each in gates.parameters()]))
    assert torch.allclose(*runs, atol=1e-5)


def size(outputs, _batch) -> torch.Tensor:
    return next(iter(outputs.values())).square().mean((1, 2))


@pytest.mark.parametrize("scope", [torch.no_grad, torch.inference_mode])
def test_the_scope_around_does_not_matter(make, scope):
    frames = []
    for around in (torch.enable_grad, scope):
        model = make("bert").model
        data = targets(model, batches(2))
        with around():
            held = [Data({name: each.clone() for name, each in batch.items()}, batch.target) for batch in data[:1]]
            gates, frame = fit_gates(model, held, lambda out, _: size(out, _), penalty=0.1, steps=3, frozen=())
        frames.append(frame)
        assert all(not each.is_inference() for each in gates.parameters())
    assert frames[0].equals(frames[1])


def test_a_model_built_in_inference_mode_is_refused(make):
    with torch.inference_mode():
        model = make("bert").model
    with pytest.raises(ValueError, match="built in inference mode"):
        fit_gates(model, batches(1), size, penalty=0.1, steps=1)


def test_it_stops_when_every_gate_is_decided(make):
    model = make("bert").model
    data = targets(model, batches(2))
    gates, frame = fit_gates(model, data, distance, penalty=1.0, steps=300, gate_rate=0.3, patience=5)
    assert len(frame) < 100 and gates.open_heads() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": -1}, "penalty must be"),
        ({"penalty": float("nan")}, "penalty must be"),
        ({"penalty": "high"}, "penalty must be"),
        ({"penalty": 1e30}, r"penalty must be a finite number from 0 to 1e\+12"),
        ({"penalty": 10**400}, "penalty must be"),
        ({"seed": "a"}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be from 0"),
        ({"gates": torch.ones(3, 4)}, "gates must be HardConcreteGates, got Tensor"),
        ({"loss": None}, "loss must be a function of"),
        ({"batches": [{"labels": 1}]}, "batch 0 holds no text"),
        ({"batches": [{"input_ids": torch.full((2, 3), 9999)}]}, "BertModel could not read batch 0"),
        ({"steps": 0}, "steps must be"),
        ({"steps": 2.5}, "steps must be"),
        ({"patience": 0}, "patience must be"),
        ({"gate_rate": -0.1}, "gate_rate must be"),
        ({"kinds": ["cross"]}, "'cross'.*the model has encoder"),
        ({"kinds": []}, "kinds names 'nothing'"),
        ({"kinds": 3}, "kinds must be"),
        ({"frozen": "decoder"}, "list of beginnings"),
        ({"frozen": ["decoder"]}, "no weight begins so: the model has embeddings, encoder, pooler"),
        ({"batches": []}, "no batch"),
        ({"batches": [3]}, "a batch must be"),
        ({"loss": lambda *_: 3.0}, "loss must return"),
        ({"loss": lambda out, _: out.last_hidden_state}, "loss must return"),
        ({"loss": lambda out, _: out.last_hidden_state.sum() * float("nan")}, "nan at step 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, options, message):
    model = make("bert").model
    arguments = {"batches": targets(model, batches(1)), "loss": distance, "penalty": 0.1, "steps": 2} | options
    with pytest.raises((TypeError, ValueError), match=message):
        fit_gates(model, arguments.pop("batches"), arguments.pop("loss"), **arguments)


@settings(max_examples=80, deadline=None)
@given(
    temperature=st.one_of(st.floats(), st.none(), st.text(max_size=2)),
    stretch=st.one_of(st.tuples(st.floats(), st.floats()), st.none(), st.lists(st.floats(), max_size=3), st.text()),
    start=st.one_of(st.floats(), st.none()),
)
def test_any_numbers_give_gates_or_a_plain_refusal(temperature, stretch, start):
    try:
        gates = HardConcreteGates(MultiHeadAttention(8, 2), temperature=temperature, stretch=stretch, start=start)
    except (TypeError, ValueError) as error:
        assert any(word in str(error) for word in ("temperature", "stretch", "start"))
    else:
        assert gates()["encoder"].isfinite().all() and gates.eval()()["encoder"].isfinite().all()
