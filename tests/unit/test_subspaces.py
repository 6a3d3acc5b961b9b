"""Shared directions: the best subspace, null models that share nothing, and weights that come back."""

from __future__ import annotations

import pytest
import torch

from utils import measures
from utils.subspaces import factors, needed_directions, restricted, scattered, shared_basis, shared_energy, survival

HEADS, WIDTH, SIZE = 4, 24, 3


def heads(common: int | None = None, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors of four heads; with ``common`` all of them lie in that many directions."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(2):
        if common is None:
            made.append(torch.randn(HEADS, WIDTH, SIZE, generator=generator))
        else:
            basis = torch.randn(WIDTH, common, generator=generator)
            made.append(basis @ torch.randn(HEADS, common, SIZE, generator=generator))
    return made[0], made[1]


def test_heads_in_five_directions_are_kept_whole_by_five():
    a, b = heads(common=5)
    u, v = shared_basis(a, b, 5)
    assert torch.allclose(u.T @ u, torch.eye(5), atol=1e-5)
    products = a @ b.mT
    assert torch.allclose(u @ (u.T @ products @ v) @ v.T, products, atol=1e-3)
    assert shared_energy(a, b)[5:].max() < 1e-6 * shared_energy(a, b)[0]


def test_energies_are_the_squared_singular_values_of_the_products_side_by_side():
    a, b = heads()
    joined = torch.cat(list(a @ b.mT), dim=1)
    assert torch.allclose(shared_energy(a, b)[:12], torch.linalg.svdvals(joined)[:12].double() ** 2, rtol=1e-4)


def test_scattered_heads_keep_their_spectra_and_lose_what_they_share():
    a, b = heads(common=5)
    left, right = scattered(a, b)
    before, after = (torch.linalg.svdvals(x @ y.mT)[:, :SIZE] for x, y in ((a, b), (left, right)))
    assert torch.allclose(before, after, rtol=1e-3)
    assert shared_energy(left, right)[5:].sum() > 0.05 * shared_energy(left, right).sum()


def test_products_equal_those_of_the_measures(tiny_bert):
    (a, b), *_ = factors(tiny_bert.model, "query-key")
    assert torch.allclose(a @ b.mT, measures.query_key_products(tiny_bert.model)[0], atol=1e-6)


@pytest.mark.parametrize("part", ["query-key", "value-output"])
@pytest.mark.parametrize("how", ["shared", "private", "random"])
def test_restriction_has_an_effect_and_leaves_no_trace(tiny_bert, part, how):
    model = tiny_bert.model
    count = len(factors(model, part)[0][0])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="stop"), restricted(model, count, how, part):
        kept = torch.linalg.matrix_rank(torch.stack([x @ y.mT for x, y in factors(model, part)]), rtol=1e-4)
        assert kept.max() <= (1 if how == "private" else count)
        raise RuntimeError("stop")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_private_directions_are_the_best_of_each_heads_own_product(tiny_bert):
    before = [x @ y.mT for x, y in factors(tiny_bert.model, "query-key")]
    with restricted(tiny_bert.model, 2 * len(before[0]), "private"):
        after = [x @ y.mT for x, y in factors(tiny_bert.model, "query-key")]
    for whole, kept in zip(before, after, strict=True):
        u, values, v = torch.linalg.svd(whole)
        best = u[..., :2] * values[:, None, :2] @ v[:, :2]
        assert torch.allclose(kept, best, atol=1e-5 * float(values.max()))


@pytest.mark.parametrize("part", ["query-key", "value-output"])
def test_all_directions_change_nothing(tiny_bert, part):
    model = tiny_bert.model
    batch = tiny_bert.tokenizer("The cat sat on the mat.", return_tensors="pt")
    before = model(**batch).last_hidden_state
    width = model.config.hidden_size
    for how in ("shared", "private", "random"):
        with restricted(model, width, how, part):
            assert torch.allclose(model(**batch).last_hidden_state, before, atol=1e-4)


@pytest.mark.parametrize("part", ["query-key", "value-output"])
def test_without_directions_the_product_is_gone(tiny_bert, part):
    for how in ("shared", "private", "random"):
        with restricted(tiny_bert.model, 0, how, part):
            assert all((a @ b.mT).abs().max() == 0 for a, b in factors(tiny_bert.model, part))


def test_what_does_not_fit_is_refused(tiny_bert, make):
    model = tiny_bert.model
    for arguments, message in (
        ((4, "best"), "shared, private, random"),
        ((3, "private"), "multiple"),
        ((999, "shared"), "from 0 to"),
        ((-4, "private"), "from 0 to"),
        ((4, "shared", "keys"), "query-key, value-output"),
    ):
        with pytest.raises(ValueError, match=message), restricted(model, *arguments):
            pass
    for name in ("gpt2", "bart", "llama"):
        with pytest.raises(ValueError, match="encoders such as BERT"):
            factors(make(name).model, "query-key")


def test_needed_directions_are_those_of_the_matrices_written_out():
    a, b = heads(common=5)
    products = a @ b.mT
    one, added, beside, size = needed_directions(a, b)
    need = lambda matrix: float(measures.needed_rank(matrix, power=2))  # noqa: E731
    assert one == pytest.approx(sum(map(need, products)) / HEADS)
    assert added == need(products.sum(0)) <= 5
    assert beside == (need(torch.cat(list(products), 1)) + need(torch.cat(list(products), 0))) / 2
    assert size == pytest.approx(float(products.sum(0).square().sum() / products.square().sum()))


def test_equal_heads_add_up_and_opposite_ones_cancel():
    a, b = heads()
    same = a[:1].expand_as(a), b[:1].expand_as(b)
    assert needed_directions(*same)[3] == pytest.approx(HEADS)
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None, None]
    assert needed_directions(same[0] * signs, same[1])[3] == pytest.approx(0.0, abs=1e-6)


def test_all_directions_survive_and_none_is_the_floor(tiny_bert):
    model = tiny_bert.model
    ids = tiny_bert.tokenizer("The cat sat on the mat.", return_tensors="pt")["input_ids"]
    for part in ("query-key", "value-output"):
        assert survival(model, ids, model.config.hidden_size, "shared", part).tolist() == pytest.approx([1.0], abs=1e-4)
        floor = {how: float(survival(model, ids, 0, how, part)) for how in ("shared", "private", "random")}
        assert max(floor.values()) - min(floor.values()) < 1e-6 and max(floor.values()) < 1 - 1e-6
