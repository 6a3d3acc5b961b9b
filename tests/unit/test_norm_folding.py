"""γ and β fold into the matrix that reads them: one layer, all of GPT-2, and why not all of BERT."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

from utils.norm_folding import fold_bert, fold_gpt2, folded, standardised

IDS = torch.tensor([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]])


def shaken(model: nn.Module) -> nn.Module:
    """γ and β away from 1 and 0, in float64."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            nn.init.normal_(module.weight, 1, 0.3)
            nn.init.normal_(module.bias, 0, 0.3)
    return model.double().eval()


def gpt2() -> nn.Module:
    size = {"n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 20, "bos_token_id": None, "eos_token_id": None}
    return shaken(GPT2Model(GPT2Config(**size)))


def bert() -> nn.Module:
    size = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    return shaken(BertModel(BertConfig(vocab_size=20, **size)))


@pytest.mark.parametrize("bias", [True, False])
def test_a_folded_layer_reads_the_standardised_rows(bias):
    norm, reader = shaken(nn.LayerNorm(6)), nn.Linear(6, 4, bias=bias).double()
    x = torch.randn(3, 6, dtype=torch.float64) * 5 + 2
    by_hand = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    assert torch.allclose(standardised(norm, x), by_hand)
    assert torch.allclose(folded(norm, reader)(by_hand), reader(norm(x)))


def test_all_of_gpt2_but_the_last_norm_folds():
    model = gpt2()
    new = fold_gpt2(model)
    assert torch.allclose(new(IDS)[0], model(IDS)[0], atol=1e-12)
    norms = [m for name, m in new.named_modules() if isinstance(m, nn.LayerNorm) and name != "ln_f"]
    assert len(norms) == 4 and all((m.weight == 1).all() and (m.bias == 0).all() for m in norms)
    assert not (model.h[0].ln_1.weight == 1).all()


def test_bert_is_another_model_when_its_norms_are_folded_because_of_the_skips():
    model = bert()
    new = fold_bert(model)
    assert (new(IDS).last_hidden_state - model(IDS).last_hidden_state).abs().max() > 0.1
    first, layer = model.embeddings(IDS), new.encoder.layer[0].attention.self
    for part in ("query", "key", "value"):
        old = getattr(model.encoder.layer[0].attention.self, part)(first)
        assert torch.allclose(getattr(layer, part)(new.embeddings(IDS)), old, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: folded(nn.LayerNorm(4), nn.Linear(5, 2)), "reads 5 numbers"),
        (lambda: folded(nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 2)), "with γ and β"),
        (lambda: fold_gpt2(bert()), "a GPT2Model is expected"),
        (lambda: fold_bert(gpt2()), "a BertModel is expected"),
    ],
)
def test_what_does_not_fit_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
