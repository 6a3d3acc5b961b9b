"""Measures of asymmetry and of maps, against hand-made cases, numpy and null models."""

import numpy as np
import pandas as pd
import pytest
import torch
from families import SENTENCE
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from utils import asymmetry
from utils.attention import attention_maps
from utils.measures import (
    argmax_offset_share,
    attention_distance,
    confidence,
    double_centered,
    entropy,
    normalized_entropy,
    offset_profile,
    positional_heads,
    query_key_products,
    query_key_weights,
    relative_asymmetry,
    roles,
    sink_share,
    symmetry_score,
)
from utils.models import untrained


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_symmetry_of_hand_made_matrices():
    assert symmetry_score(torch.tensor([[1.0, 2.0], [2.0, 5.0]])) == 1
    assert symmetry_score(torch.tensor([[0.0, 3.0], [-3.0, 0.0]])) == -1
    assert symmetry_score(torch.tensor([[0.0, 1.0], [0.0, 0.0]])) == 0
    assert relative_asymmetry(torch.tensor([[0.0, 1.0], [0.0, 0.0]])) == pytest.approx(0.5**0.5)
    assert symmetry_score(torch.zeros(2, 2)).isnan()


def test_symmetry_equals_its_definition_and_the_two_measures_agree():
    matrices = random(3, 5, 9, 9)
    found, relative = symmetry_score(matrices), relative_asymmetry(matrices)
    assert found.shape == (3, 5)
    for index in np.ndindex(3, 5):
        m = matrices[index].double().numpy()
        even, odd = np.linalg.norm((m + m.T) / 2) ** 2, np.linalg.norm((m - m.T) / 2) ** 2
        assert found[index] == pytest.approx((even - odd) / np.linalg.norm(m) ** 2, abs=1e-6)
        assert relative[index] == pytest.approx(odd**0.5 / np.linalg.norm(m), abs=1e-6)
    assert torch.allclose(found, 1 - 2 * relative**2, atol=1e-6)


def test_the_null_model_of_symmetry_has_mean_one_over_n_and_spread_root_two_over_n():
    d, d_head = 384, 32
    left, right = random(300, d, d_head, seed=1), random(300, d, d_head, seed=2)
    scores = torch.cat([symmetry_score(a @ b.mT) for a, b in zip(left.split(20), right.split(20), strict=True)])
    assert scores.mean() == pytest.approx(1 / d, abs=3 * 2**0.5 / d / 300**0.5)
    assert scores.std() == pytest.approx(2**0.5 / d, rel=0.15)


def test_what_is_not_square_is_refused():
    for measure in (symmetry_score, relative_asymmetry, attention_distance, offset_profile, argmax_offset_share):
        with pytest.raises(ValueError, match=r"square matrix \(..., n, n\) is needed, got the shape \(2, 3\)"):
            measure(torch.zeros(2, 3))


def test_double_centering_takes_row_and_column_means_off():
    scores = random(2, 4, 6)
    centered = double_centered(scores)
    assert torch.allclose(centered.mean(-1), torch.zeros(2, 4), atol=1e-6)
    assert torch.allclose(centered.mean(-2), torch.zeros(2, 6), atol=1e-6)
    shifted = scores + random(2, 4, 1, seed=1) + random(2, 1, 6, seed=2)
    assert torch.allclose(double_centered(shifted), centered, atol=1e-5)


def test_double_centering_removes_a_false_symmetry():
    scores = random(8, 50, 50) + 3 * (random(8, 50, 1, seed=1) + random(8, 1, 50, seed=1).abs())
    common = scores + 5
    assert symmetry_score(common).mean() > 0.3
    assert symmetry_score(double_centered(common)).abs().max() < 0.1


def test_entropy_in_nats():
    weights = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0, 0, 0], [0.5, 0.5, 0, 0]])
    assert torch.allclose(entropy(weights), torch.tensor([np.log(4), 0, np.log(2)]).float())
    assert torch.allclose(normalized_entropy(weights), torch.tensor([1.0, 0, 0.5]))
    causal = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    found = normalized_entropy(causal, causal=True)
    assert found[0].isnan()
    assert torch.allclose(found[1:], torch.ones(2))


def test_distance_offsets_and_arg_max_of_hand_made_maps():
    previous = torch.eye(4).roll(1, 1)  # row i reads i + 1, the last row reads the first key
    assert attention_distance(previous).tolist() == [1, 1, 1, 3]
    assert offset_profile(previous, (1, -3, 0, 9)).tolist() == [0.75, 0.25, 0, 0]
    offset, share = argmax_offset_share(torch.stack([previous, torch.eye(4)]))
    assert offset.tolist() == [1, 0]
    assert share.tolist() == [0.75, 1]


def test_the_null_model_of_distance_and_offsets_is_the_uniform_map():
    n = 12
    uniform = torch.full((n, n), 1 / n)
    assert attention_distance(uniform).mean() == pytest.approx((n**2 - 1) / (3 * n), abs=1e-6)
    offsets = tuple(range(1 - n, n))
    profile = offset_profile(uniform, offsets)
    assert profile.sum() == pytest.approx(1, abs=1e-6)
    assert torch.allclose(profile, torch.tensor([(n - abs(o)) / n**2 for o in offsets]))


def test_sink_share_is_read_by_ordinary_queries_only():
    weights = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.2, 0.4, 0.4]])
    assert sink_share(weights, torch.tensor([True, False, False])) == pytest.approx(0.35)
    assert sink_share(weights, [False, False, True]) == 0
    with pytest.raises(ValueError, match="mask of 3 tokens"):
        sink_share(weights, [True])
    with pytest.raises(ValueError, match="all tokens are special"):
        sink_share(weights, [True] * 3)


def test_confidence_is_the_mean_greatest_weight_on_ordinary_tokens():
    weights = torch.tensor([[1.0, 0, 0], [0.5, 0.1, 0.4], [0.2, 0.7, 0.1]])
    assert confidence(weights) == pytest.approx((1 + 0.5 + 0.7) / 3)
    first = torch.tensor([True, False, False])
    assert confidence(weights, first) == pytest.approx((0 + 0.4 + 0.7) / 3)
    assert confidence(weights, first, first) == pytest.approx((0.4 + 0.7) / 2)
    assert confidence(weights[:2], special_queries=[False, True]) == 1  # maps of cross-attention are rectangular
    assert confidence(torch.full((4, 6, 5), 0.2)).tolist() == pytest.approx([0.2] * 4)  # the null model
    with pytest.raises(ValueError, match=r"special_keys must be a mask of 3 keys, got the shape \(2,\)"):
        confidence(weights, [True, False])
    with pytest.raises(ValueError, match="all queries are special"):
        confidence(weights, special_queries=[True] * 3)


PREFIXES = {"bert": "encoder.layer.", "distilbert": "transformer.layer.", "gpt2": "transformer.h."}
PREFIXES |= {"llama": "model.layers.", "bart": "model.encoder.layers.", "marian": "model.encoder.layers."}
PREFIXES |= {"t5": "encoder.block.", "translator": "encoder.layers."}


@pytest.mark.parametrize("name", PREFIXES)
def test_scores_from_the_weights_give_the_models_own_attention(make, name):
    """softmax(X M Xᵀ + biases) of layer 0 equals its map, so the split by head and the orientation are right."""
    family = make(name)
    seen = []
    for path, module in family.model.named_modules():
        if path.startswith(PREFIXES[name] + "0") and asymmetry._projections(module):
            module.register_forward_pre_hook(
                lambda _, args, kwargs: seen.append(args[0] if args else kwargs["hidden_states"]), with_kwargs=True
            )
    maps = next(iter(attention_maps(family.model, family.tokenizer, SENTENCE, family.target).values()))
    x = seen[-1][0].double()
    layer = query_key_weights(family.model)[0]
    w_q, w_k, b_q, b_k = (each.double() for each in layer)
    heads, width, d_head = w_q.shape
    assert (heads, width) == (maps.weights.shape[1], x.shape[1])
    queries, keys = x @ w_q + b_q[:, None], x @ w_k + b_k[:, None]
    if name == "llama":  # positions turn queries and keys, and two groups of four heads share their keys
        assert torch.equal(layer.w_k[0], layer.w_k[3])
        assert not torch.equal(layer.w_k[3], layer.w_k[4])
        cos, sin = family.model.model.rotary_emb(x, torch.arange(len(x))[None])
        queries, keys = (each[0] for each in apply_rotary_pos_emb(queries[None], keys[None], cos, sin))
        scores = queries @ keys.mT
    else:
        product = query_key_products(family.model)[0].double()
        from_biases = x @ w_q @ b_k[..., None] + (x @ w_k @ b_q[..., None]).mT + (b_q * b_k).sum(-1)[:, None, None]
        scores = x @ product @ x.T + from_biases
        assert torch.allclose(scores, queries @ keys.mT, atol=1e-4)
    if name == "t5":
        scores = scores + family.model.encoder.block[0].layer[0].SelfAttention.compute_bias(len(x), len(x))[0].detach()
    else:
        scores = scores / d_head**0.5
    if name == "translator":
        scores = scores + family.model.encoder.layers[0].relative_bias(len(x)).detach()
    if maps.kind == "decoder":
        scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -torch.inf)
    assert torch.allclose(scores.softmax(-1).float(), maps.weights[0], atol=1e-5)


def test_shapes_of_every_family(family):
    layers = query_key_weights(family.model)
    config = family.model.config
    assert len(layers) == config.num_hidden_layers
    products = query_key_products(family.model)
    assert products.shape == (len(layers), config.num_attention_heads, config.hidden_size, config.hidden_size)
    assert products.dtype == torch.float32
    assert not products.requires_grad
    assert layers[0].b_q.shape == layers[0].w_q.shape[::2]
    family.model.to(torch.bfloat16)
    assert query_key_products(family.model).dtype == torch.float32


def test_a_model_without_projections_is_refused_by_name():
    with pytest.raises(ValueError, match="Linear: no query and key projections found; supported are BERT"):
        query_key_weights(torch.nn.Linear(2, 2))


def test_products_that_would_not_fit_are_refused(tiny_bert, monkeypatch):
    monkeypatch.setattr(asymmetry, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="3 layers of 4 products 32 × 32"):
        query_key_products(tiny_bert.model)


def frame(**columns) -> pd.DataFrame:
    return pd.DataFrame(columns)


def test_roles_follow_the_offset_rule_and_then_the_sink_rule():
    table = frame(
        best_offset=[-1, 1, 0, -1, -2, -1, np.nan],
        best_offset_share=[0.95, 0.9, 1.0, 0.89, 1.0, 0.99, np.nan],
        sink_share=[0.1, 0.2, 0.3, 0.4, 0.6, 0.9, 0.7],
    )
    expected = ["previous token", "next token", "same token", "unlabelled", "sink", "previous token", "sink"]
    assert roles(table).tolist() == expected
    assert positional_heads(table).index.tolist() == [0, 1, 5]
    assert roles(table, share=0.5).tolist()[3] == "previous token"
    assert roles(table, sink=0.35).tolist()[3] == "sink"


def test_trained_heads_are_more_symmetric_than_random_ones(minilm):
    trained = symmetry_score(query_key_products(minilm.model))
    null = symmetry_score(query_key_products(untrained(minilm.model)))
    assert trained.shape == (6, 12)
    assert null.mean().abs() < 0.005
    assert null.abs().max() < 0.02
    assert trained.mean() > 0.1
    assert (trained > null.max()).float().mean() > 0.7
    assert trained.max() < 0.9  # and no head is symmetric
