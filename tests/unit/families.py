"""Tiny random models of every family, with tokenizers that are made in memory: what the fixtures are built from."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from utils.corpora import passages
from utils.translator import Translator, TranslatorConfig

SENTENCE = "The cat sat on the mat."
TARGET = "A dog ran."


class Family(NamedTuple):
    name: str
    model: torch.nn.Module
    tokenizer: PreTrainedTokenizerFast

    @property
    def target(self) -> str | None:
        """A target text where the model needs one."""
        return TARGET if self.model.config.is_encoder_decoder else None


def _fast(core: Tokenizer, **special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=64, **special)


def _frame(core: Tokenizer, first: str | None, last: str | None) -> None:
    """Let the tokenizer put special tokens around a text."""
    template = [each for each in (first, "$A", last) if each]
    ids = [(each, core.token_to_id(each)) for each in (first, last) if each]
    core.post_processor = processors.TemplateProcessing(single=" ".join(template), special_tokens=ids)


def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT: lower case, no accents, Hangul in letters; [CLS] … [SEP]."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=marks, show_progress=False)
    core.train_from_iterator([*passages(60), "나는 학교에 갔다"] * 2, trainer)
    core.decoder = decoders.WordPiece()
    _frame(core, "[CLS]", "[SEP]")
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return _fast(core, **dict(zip(names, marks, strict=True)))


def byte_level(first: str | None, last: str | None) -> PreTrainedTokenizerFast:
    """As GPT-2, BART or Llama 3: pieces are bytes, so that a character may fall into several."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<s>", "<pad>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(passages(60), trainer)
    core.decoder = decoders.ByteLevel()
    if first or last:
        _frame(core, first, last)
        return _fast(core, bos_token="<s>", pad_token="<pad>", eos_token="</s>")
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    return _fast(core, bos_token="</s>", eos_token="</s>")


def unigram() -> PreTrainedTokenizerFast:
    """As T5 and Marian: "▁" marks the beginning of a word; … </s>."""
    core = Tokenizer(models.Unigram())
    core.normalizer = normalizers.NFKC()
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    core.train_from_iterator(passages(60), trainer)
    core.decoder = decoders.Metaspace()
    _frame(core, None, "</s>")
    return _fast(core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


SIZES = {
    "bert": dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48),
    "distilbert": dict(dim=32, n_layers=3, n_heads=4, hidden_dim=48),
    "gpt2": dict(n_embd=32, n_layer=3, n_head=4, n_positions=64, bos_token_id=2, eos_token_id=2),
    "llama": dict(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, intermediate_size=48
    ),
    "t5": dict(d_model=32, d_kv=6, d_ff=48, num_layers=3, num_decoder_layers=2, num_heads=4, decoder_start_token_id=0),
}
UNEQUAL = dict(  # encoder and decoder differ in depth and heads
    d_model=32,
    encoder_layers=3,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=2,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
)
SIZES["bart"] = dict(UNEQUAL, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
SIZES["marian"] = dict(UNEQUAL, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=1)
SIZES["translator"] = dict(
    d_model=32, ffn_dim=48, encoder_layers=3, decoder_layers=2, heads=4, bos_token_id=0, eos_token_id=1
) | dict(decoder_start_token_id=0, max_position_embeddings=64)
CLASSES = {
    "bert": (BertConfig, BertModel, "wordpiece"),
    "distilbert": (DistilBertConfig, DistilBertModel, "wordpiece"),
    "gpt2": (GPT2Config, GPT2LMHeadModel, "bytes"),
    "llama": (LlamaConfig, LlamaForCausalLM, "bytes with start"),
    "bart": (BartConfig, BartForConditionalGeneration, "bytes with both"),
    "marian": (MarianConfig, MarianMTModel, "unigram"),
    "t5": (T5Config, T5ForConditionalGeneration, "unigram"),
}
CLASSES["translator"] = (TranslatorConfig, Translator, "unigram")
FAMILIES = tuple(CLASSES)
KINDS = {name: ("encoder",) for name in ("bert", "distilbert")} | {name: ("decoder",) for name in ("gpt2", "llama")}
KINDS |= {name: ("encoder", "decoder", "cross") for name in ("bart", "marian", "t5", "translator")}


def tokenizers() -> dict[str, PreTrainedTokenizerFast]:
    """One tokenizer of each kind, by the names that CLASSES uses."""
    return {
        "wordpiece": wordpiece(),
        "bytes": byte_level(None, None),
        "bytes with start": byte_level("<s>", None),
        "bytes with both": byte_level("<s>", "</s>"),
        "unigram": unigram(),
    }


def build(name: str, kinds: dict[str, PreTrainedTokenizerFast], seed: int = 0, scale: float = 4.0, **changes) -> Family:
    """A fresh tiny random model, in evaluation mode, with its tokenizer. ``changes`` go into its config."""
    config_class, model_class, kind = CLASSES[name]
    config = config_class(**({"vocab_size": len(kinds[kind])} | SIZES[name] | changes))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config).eval()
        for parameter in model.parameters():
            if not parameter.requires_grad:
                continue  # Marian's sinusoids, which are no weights
            if parameter.ndim == 2 and name not in ("t5", "translator"):
                parameter.data *= scale  # attention that is not near-uniform
            elif parameter.ndim == 1:
                parameter.data += 0.1 * torch.randn_like(parameter)  # biases that are not zero
    return Family(name, model, kinds[kind])


def batch_of(family: Family, texts: list[str], targets: list[str] | None = None) -> dict[str, torch.Tensor]:
    """A padded batch of texts; an encoder–decoder reads padded targets too, the same texts unless others are given."""
    tokenizer = copy.copy(family.tokenizer)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    batch = dict(tokenizer(texts, return_tensors="pt", padding=True))
    batch.pop("token_type_ids", None)
    if family.target:
        read = tokenizer(targets or texts, return_tensors="pt", padding=True)
        batch |= {"decoder_input_ids": read["input_ids"], "decoder_attention_mask": read["attention_mask"]}
    return batch


@torch.no_grad()
def real(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """What a model says about the real tokens of a batch, logits or states: (tokens, features)."""
    outputs = model(**batch)
    found = outputs.logits if "logits" in outputs else outputs.last_hidden_state
    return found[batch.get("decoder_attention_mask", batch["attention_mask"]).bool()]


def state(model: torch.nn.Module) -> dict:
    """All that must not change: memory, bits, modes, backends, hooks."""
    return {
        "tensors": {
            name: (tensor.data_ptr(), tensor.dtype, tensor.requires_grad, tensor.detach().clone())
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        },
        "modes": [module.training for module in model.modules()],
        "hooks": [list(module._forward_hooks.items()) for module in model.modules()],
        "before": [list(module._forward_pre_hooks.items()) for module in model.modules()],
        "names": [sorted(module.__dict__) for module in model.modules()],
        "config": copy.deepcopy(model.config.to_dict()) | {"backend": model.config._attn_implementation},
        "generation": copy.deepcopy(getattr(model, "generation_config", None) and model.generation_config.to_dict()),
    }


def same(left: dict, right: dict) -> None:
    """Asserts that two states are equal, tensors bit by bit."""
    tensors = left.pop("tensors"), right.pop("tensors")
    assert left == right
    for name, (*facts, bits) in tensors[0].items():
        assert facts == list(tensors[1][name][:-1]), name
        assert torch.equal(bits, tensors[1][name][-1]), name
