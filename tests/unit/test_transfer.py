"""A body between new layers: which parameters form which group, what is trained, what stays; and the stored runs."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch import nn

from tools.sweeps import transfer as script
from tools.sweeps.rows import KEY
from utils import transfer, transfer_results
from utils.models import MINILM_SHA256, load
from utils.sweeps import sweep
from utils.transfer_tasks import IGNORED, bit_memory, bit_xor, digits


@pytest.fixture(scope="module")
def net():
    return transfer.Transferred(transfer.body("random small"), digits())


def test_random_bodies_have_the_spread_they_promise_and_unit_norms():
    trained, scaled, small = (transfer.body(kind, seed=1) for kind in transfer.BODIES)
    pairs = zip(trained.named_parameters(), scaled.parameters(), small.parameters(), strict=True)
    for (name, own), like, tiny in pairs:
        if own.ndim == 2:
            assert float(like.detach().std()) == pytest.approx(float(own.detach().std()), rel=0.05), name
            assert abs(float(torch.corrcoef(torch.stack([own.flatten(), like.flatten()]).detach())[0, 1])) < 0.05
            assert float(tiny.detach().std()) == pytest.approx(0.02, rel=0.1)
        elif "LayerNorm.weight" in name:
            assert (like == 1).all() and not (own == 1).all()


def test_a_pretrained_body_computes_what_minilm_computes_even_in_training_mode():
    model, _ = load("minilm")
    vectors = torch.randn(2, 5, 384, generator=torch.Generator().manual_seed(0)) * 0.05
    with torch.no_grad():
        found = transfer.body("pretrained").train()(inputs_embeds=vectors).last_hidden_state
        assert torch.equal(found, model(inputs_embeds=vectors).last_hidden_state)


def test_groups_hold_every_parameter_once_and_have_the_sizes_of_the_formula(net):
    found = [id(p) for group in transfer.GROUPS for p in transfer.parameters(net, [group])]
    assert sorted(found) == sorted(id(p) for p in net.parameters())
    expected = {"output": 384 * 10 + 10, "layernorm": 13 * 2 * 384, "input": 16 * 384 + 384, "positions": 4 * 384}
    assert {name: n for name, n in transfer.sizes(net).items() if name in expected} == expected
    assert transfer.train_only(net, transfer.RUNGS["+ positions"]) == sum(expected.values())


@pytest.mark.parametrize("rung", ["+ LayerNorm", "input and output", "LayerNorm alone"])
def test_training_moves_the_groups_of_the_rung_and_nothing_else(rung):
    net = transfer.Transferred(transfer.body("pretrained"), digits())
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    chosen = {id(p) for p in transfer.parameters(net, transfer.RUNGS[rung])}
    transfer.adapt(net, digits().first(40), transfer.RUNGS[rung], learning_rate=1e-3, steps=2)
    for name, parameter in net.named_parameters():
        assert torch.equal(parameter, before[name]) == (id(parameter) not in chosen), name


def test_training_the_head_on_kept_features_equals_training_it_in_place():
    task = digits().first(60)
    kept, plain = (transfer.Transferred(transfer.body("pretrained"), task, seed=3) for _ in range(2))
    transfer.adapt(kept, task, ["output"], learning_rate=1e-2, steps=5, every=5)
    transfer.train_only(plain, ["output"])
    inputs, targets = task.part("train")
    generator, optimiser = (
        torch.Generator().manual_seed(0),
        torch.optim.AdamW(plain.output.parameters(), weight_decay=0),
    )
    for step in range(5):
        rows = torch.randint(60, (transfer.BATCH,), generator=generator)
        optimiser.param_groups[0]["lr"] = 1e-2 * min(1.0, (step + 1) / (transfer.WARMUP + 1))
        loss = nn.functional.cross_entropy(plain(inputs=inputs[rows])[:, 0], targets[rows, 0])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert torch.allclose(kept.output.weight, plain.output.weight, atol=1e-5)


def test_logits_are_read_where_the_task_says():
    tasks = {digits(): (1, 10), digits(read=0): (1, 10), bit_xor(3): (3, 2), bit_memory(2, 6, 30): (6, 2)}
    for task, shape in tasks.items():
        net = transfer.Transferred(transfer.body("random small"), task)
        with torch.no_grad():
            states = net.body(inputs_embeds=net.input(task.inputs[:2])).last_hidden_state
            features = net.features(task.inputs[:2])
        assert net.head(features).shape == (2, *shape)
        right = states[:, -task.read :] if task.read else states.mean(1, keepdim=True)
        assert torch.equal(features, right)


def test_hidden_targets_count_neither_in_loss_nor_in_accuracy():
    logits = torch.tensor([[[5.0, 0.0], [0.0, 5.0]]])
    targets = torch.tensor([[0, IGNORED]])
    assert transfer.loss(logits, {"targets": targets}) < 0.01
    constant = nn.Identity()
    constant.forward = lambda inputs: logits
    assert transfer.accuracy(constant, torch.zeros(1, 1), targets) == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda net: transfer.body("trained"), "kind must be one of 'pretrained'"),
        (lambda net: transfer.train_only(net, ["norms"]), "groups must be some of 'output'"),
        (lambda net: transfer.parameters(net, []), "groups must be some of"),
        (lambda net: transfer.Transferred(net.body, digits(), input_scale=0), "above 0"),
        (lambda net: transfer_results.runs(colour=1), "no column 'colour'"),
        (lambda net: transfer_results.runs(rung="attention"), "no stored run has"),
        (lambda net: transfer_results.tuned(pd.DataFrame({"seed": [0]})), "lacks the column"),
    ],
)
def test_what_does_not_fit_is_named(net, call, words):
    with pytest.raises(ValueError, match=words):
        call(net)


def _table(validation: list[float], test: list[float]) -> pd.DataFrame:
    rates = [1e-4, 1e-3, 1e-2]
    fixed = {name: 0 for name in transfer_results.SETTING}
    rows = [fixed | {"learning_rate": r, "seed": 0} for r in rates]
    return pd.DataFrame(rows).assign(validation=validation, test=test)


def test_the_learning_rate_is_chosen_on_the_validation_set():
    chosen = transfer_results.tuned(_table([0.5, 0.7, 0.6], [0.5, 0.6, 0.9]))
    assert chosen["test"].tolist() == [0.6]


def test_rates_that_tie_leave_the_smallest():
    chosen = transfer_results.tuned(_table([0.5, 0.7, 0.701], [0.1, 0.2, 0.3]))
    assert chosen["learning_rate"].tolist() == [1e-3]


def test_a_rate_that_was_given_up_after_one_seed_is_not_chosen():
    first, second = _table([0.5, 0.7, 0.8], [0.1, 0.2, 0.3]), _table([0.5, 0.7, 0.8], [0.1, 0.3, 0.9])
    chosen = transfer_results.tuned(pd.concat([first, second.assign(seed=1).iloc[:2]]))
    assert chosen["learning_rate"].tolist() == [1e-3, 1e-3] and chosen["test"].tolist() == [0.2, 0.3]


def test_the_sweep_is_about_minilm_and_has_each_setting_with_three_seeds():
    stored = sweep("transfer")
    assert stored["made"]["model"] == MINILM_SHA256
    known = {tuple(row[: len(KEY)]) for row in stored["rows"]}
    parts = (script.solved, script.settings, script.finer)
    expected = [setting for seed in range(3) for part in parts for setting in part(seed)]
    assert not [s for s in expected if tuple(s[name] for name in KEY) not in known]


def test_settings_stand_in_rows_and_bodies_in_columns():
    alone = {"rung": "LayerNorm alone"}
    found = transfer_results.by_body({"best": alone, "slow": alone | {"learning_rate": 1e-3}})
    one = transfer_results.runs(**alone, body="random", learning_rate=1e-3)["test"].item()
    assert found.loc["slow", "random"] == f"{one:.2f}" and set(found.columns) == {"pretrained", "random"}
    three = transfer_results.by_seed(**alone, body="pretrained")
    assert found.loc["best", "pretrained"].startswith(f"{three.mean():.2f} (") and len(three) == 3


def test_a_curve_is_first_above_a_level_after_a_number_of_steps():
    assert transfer_results.first_above([0.5, 0.95, 0.96, 0.9]) == "75"
    assert transfer_results.first_above([0.5, 0.6], level=0.55, every=10) == "20"
    assert transfer_results.first_above([0.5, 0.6]) == "never"


def test_no_stored_cell_of_the_ladder_has_a_better_rate_that_was_given_up():
    """What seed 0 found better at a finer rate, the other seeds have tried, too."""
    for rung in (*transfer.LADDER, "LayerNorm alone", "input and output", "everything"):
        table = transfer_results.runs(rung=rung)
        for kind, group in table.groupby("body"):
            rate = transfer_results.tuned(group)["learning_rate"].iloc[0]
            first = group[group["seed"] == 0].set_index("learning_rate")["validation"]
            given_up = set(first.index) - set(group.loc[group["seed"] == 2, "learning_rate"])
            assert all(first[other] <= first[rate] for other in given_up), (rung, kind)


def test_a_stored_run_comes_out_again():
    rows = transfer_results.runs(body="random", rung="output", learning_rate=1e-2, seed=1).to_dict("records")
    (row,) = ({name: r[name] for name in (*KEY, "test", "validation")} for r in rows)
    again = script.run({name: row[name] for name in KEY})
    assert again["test"] == pytest.approx(row["test"], abs=0.01)
    assert again["validation"] == pytest.approx(row["validation"], abs=0.015)


def test_accuracies_of_one_setting_come_by_seed_and_of_two_are_refused():
    found = transfer_results.by_seed(body="pretrained", rung="output")
    assert list(found.index) == [0, 1, 2] and found.between(0, 1).all()
    with pytest.raises(ValueError, match="differ in rung"):
        transfer_results.by_seed(body="pretrained", rung=None)


def test_a_small_random_body_hands_the_patches_on_and_the_others_do_not():
    """Why its solved head is good and its trained head is not (chapter 8)."""
    task, kept = digits(), {}
    for kind in transfer.BODIES:
        net = transfer.Transferred(transfer.body(kind), task)
        with torch.no_grad():
            vectors = net.input(task.inputs[:100])
            start, end = net.body.embeddings(inputs_embeds=vectors), net.body(inputs_embeds=vectors).last_hidden_state
        centred = (start - start.mean(0), end - end.mean(0))
        kept[kind] = float(torch.cosine_similarity(*centred, dim=-1).mean())
    assert kept["random small"] > 0.85
    assert max(kept["pretrained"], kept["random"]) < 0.5


def test_a_solved_head_beats_a_stepped_one_and_needs_one_output():
    task = digits().first(200)
    net = transfer.Transferred(transfer.body("random small"), task)
    before = net.output.weight.clone()
    solved = transfer.solved_head(net, task)
    assert torch.equal(net.output.weight, before) and solved["trained"] == 3850
    stepped = transfer.adapt(net, task, ["output"], learning_rate=1e-3, steps=20)
    assert solved["test"] > stepped["test"] + 0.1
    with pytest.raises(ValueError, match="'bit xor' has 3"):
        transfer.solved_head(transfer.Transferred(transfer.body("random small"), bit_xor(3)), bit_xor(3))
