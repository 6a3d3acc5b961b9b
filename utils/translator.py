"""A whole translation Transformer on our own ``MultiHeadAttention``, to be read in one sitting.

Encoder and decoder as in Vaswani et al. 2017 (arXiv 1706.03762), with layer norms before each part (Xiong et al. 2020,
arXiv 2002.04745). Order reaches the model in two ways: sinusoidal positions are added to the embeddings of both
stacks, and every encoder head learns one bias per clipped distance (Shaw et al. 2018, arXiv 1803.02155; as a bias on
the scores: Raffel et al. 2020, arXiv 1910.10683, section 2.1). ``generate`` is Hugging Face's; ``translate`` wraps it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from utils.attention.multihead import MultiHeadAttention


class TranslatorConfig(PreTrainedConfig):
    """Sizes of a translator. Distances beyond ``max_distance`` share one bias."""

    model_type = "insights-translator"
    attribute_map = {"hidden_size": "d_model", "num_hidden_layers": "encoder_layers"} | dict.fromkeys(
        ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"), "heads"
    )

    vocab_size: int = 4000
    d_model: int = 128
    ffn_dim: int = 256
    encoder_layers: int = 6
    decoder_layers: int = 3
    heads: int = 8
    max_distance: int = 8
    dropout: float | int = 0.1
    max_position_embeddings: int = 160
    is_encoder_decoder: bool = True
    use_cache: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int = 1


class Embedding(nn.Module):
    """Token embedding times √width, plus a sinusoidal position (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, config: TranslatorConfig):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.longest = config.max_position_embeddings
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, start: int = 0) -> Tensor:
        """(batch, length) → (batch, length, width), for positions ``start`` and on."""
        end, width = start + ids.shape[1], self.tokens.embedding_dim
        if end > self.longest:
            raise ValueError(f"{end} tokens came, the translator takes {self.longest} at most: shorten the text")
        angles = torch.arange(start, end)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        positions = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
        return self.dropout(self.tokens(ids) * math.sqrt(width) + positions.to(self.tokens.weight))


class RelativeBias(nn.Module):
    """One learned number per head and clipped distance key − query, added to the scores."""

    def __init__(self, config: TranslatorConfig):
        super().__init__()
        self.reach = config.max_distance
        self.weight = nn.Parameter(torch.zeros(config.heads, 2 * self.reach + 1))

    def forward(self, length: int) -> Tensor:
        """(heads, length, length). The factor 10 lets the bias learn ten times as fast as other weights."""
        position = torch.arange(length, device=self.weight.device)
        distance = (position - position[:, None]).clamp(-self.reach, self.reach)
        return 10 * self.weight[:, distance + self.reach]


class Layer(nn.Module):
    """Self-attention, in a decoder cross-attention, and a feed-forward part: each behind a norm and beside a skip."""

    def __init__(self, config: TranslatorConfig, decoder: bool):
        super().__init__()
        width, inner = config.d_model, config.ffn_dim
        self.attention, self.attention_norm = MultiHeadAttention(width, config.heads), nn.LayerNorm(width)
        self.relative_bias = None if decoder else RelativeBias(config)
        self.cross_attention = MultiHeadAttention(width, config.heads) if decoder else None
        self.cross_attention_norm = nn.LayerNorm(width) if decoder else None
        self.feed_forward = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.feed_forward_norm, self.dropout = nn.LayerNorm(width), nn.Dropout(config.dropout)

    def forward(self, x, mask, need_weights, memory=None, memory_mask=None, cache=None) -> tuple:
        """The new x (batch, length, width), the weights of self- and those of cross-attention (or None)."""
        own, other = (cache["self"], cache["cross"]) if cache else (None, None)
        bias = self.relative_bias(x.shape[1]) if self.relative_bias else None
        attended, weights = self.attention(self.attention_norm(x), None, mask, bias, need_weights, own)
        x, cross_weights = x + self.dropout(attended), None
        if self.cross_attention:
            normed = self.cross_attention_norm(x)
            attended, cross_weights = self.cross_attention(normed, memory, memory_mask, None, need_weights, other)
            x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), weights, cross_weights


class Stack(nn.Module):
    """Layers of one kind, and a last norm."""

    def __init__(self, config: TranslatorConfig, layers: int, decoder: bool):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(Layer(config, decoder) for _ in range(layers))
        self.norm = nn.LayerNorm(config.d_model)

    def run(self, x, mask, output_attentions, memory=None, memory_mask=None, cache=None) -> tuple[Tensor, list[tuple]]:
        """The output, and for each layer (state before it, self-attention weights, cross-attention weights)."""
        need_weights = bool(output_attentions) or self.config._attn_implementation == "eager"
        trace = []
        for i, layer in enumerate(self.layers):
            before = x
            x, *weights = layer(x, mask, need_weights, memory, memory_mask, cache and cache[i])
            trace.append((before, *weights))
        return self.norm(x), trace


class Encoder(Stack):
    """A stack that starts from token ids, as ``generate`` calls it."""

    main_input_name = "input_ids"

    def __init__(self, config: TranslatorConfig):
        super().__init__(config, config.encoder_layers, decoder=False)
        self.embedding = Embedding(config)

    def forward(self, input_ids, attention_mask=None, output_attentions=None, output_hidden_states=None, **_):
        """input_ids and attention_mask (1 token, 0 padding): (batch, length)."""
        mask = None if attention_mask is None else attention_mask.bool()[:, None, None]
        x, trace = self.run(self.embedding(input_ids), mask, output_attentions)
        states, maps, _ = zip(*trace, strict=True)
        return BaseModelOutput(x, (*states, x) if output_hidden_states else None, maps if output_attentions else None)


class Translator(PreTrainedModel, GenerationMixin):
    """Encoder and decoder; the encoder's embedding also embeds the target and, transposed, gives the logits."""

    config_class = TranslatorConfig
    _supports_sdpa = True

    def __init__(self, config: TranslatorConfig):
        super().__init__(config)
        self.encoder, self.decoder = Encoder(config), Stack(config, config.decoder_layers, decoder=True)
        self.post_init()
        self.generation_config.max_new_tokens = 80

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5)
        elif isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, RelativeBias):
            init.zeros_(module.weight)

    def get_encoder(self, modality: str | None = None) -> Encoder:
        return self.encoder

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embedding.tokens

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels moved right by one, behind the start token; padding where labels are −100."""
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        shifted = torch.cat([start, labels[:, :-1]], dim=1)
        return shifted.masked_fill(shifted == -100, self.config.pad_token_id)

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        decoder_attention_mask=None,
        labels=None,
        encoder_outputs=None,
        cache=None,
        use_cache=None,
        output_attentions=None,
        output_hidden_states=None,
        return_dict=True,
    ) -> Seq2SeqLMOutput:
        """input_ids (batch, source length); decoder_input_ids or labels (batch, target length), −100 is ignored.

        Masks: 1 token, 0 padding. Logits: (batch, target length, vocabulary). Attentions of each kind: one tensor
        (batch, heads, queries, keys) a layer; hidden states: layers + 1 tensors (batch, length, width).
        """
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("decoder_input_ids and labels are both missing: give one of them, or call generate")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, output_attentions, output_hidden_states)
        if cache is None and use_cache:
            cache = [{"self": {}, "cross": {}} for _ in self.decoder.layers]
        known = cache[0]["self"]["keys"].shape[-2] if cache and cache[0]["self"] else 0

        x = self.encoder.embedding(decoder_input_ids, known)
        mask = torch.ones(x.shape[1], known + x.shape[1], dtype=torch.bool, device=x.device).tril(known)
        if decoder_attention_mask is not None:
            mask = mask & decoder_attention_mask.bool()[:, None, None]
        memory = encoder_outputs[0]
        memory_mask = None if attention_mask is None else attention_mask.bool()[:, None, None]
        x, trace = self.decoder.run(x, mask, output_attentions, memory, memory_mask, cache)
        states, maps, cross_maps = zip(*trace, strict=True)
        logits = functional.linear(x, self.get_input_embeddings().weight)
        return Seq2SeqLMOutput(
            loss=None if labels is None else functional.cross_entropy(logits.flatten(0, 1), labels.flatten()),
            logits=logits,
            cache=cache,
            decoder_hidden_states=(*states, x) if output_hidden_states else None,
            decoder_attentions=maps if output_attentions else None,
            cross_attentions=cross_maps if output_attentions else None,
            encoder_last_hidden_state=memory,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
        )

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # forward makes its own: for each layer the keys and values of both attentions

    @staticmethod
    def _reorder_cache(cache: list[dict], beams: Tensor) -> list[dict]:
        """Beam search keeps some hypotheses and drops others; their keys and values follow."""
        return [{kind: {name: t[beams] for name, t in part.items()} for kind, part in layer.items()} for layer in cache]


@torch.inference_mode()
def translate(model: Translator, tokenizer, sentences: list[str], beams: int = 1, batch: int = 100) -> list[str]:
    """Translate greedily, or with ``beams`` hypotheses (beam search), in batches of sentences of similar length."""
    if isinstance(sentences, str):
        raise TypeError("one string came where a list of sentences was expected: pass [sentence]")
    lengths = [len(ids) for ids in tokenizer(sentences)["input_ids"]] if sentences else []
    order, done = sorted(range(len(sentences)), key=lengths.__getitem__), {}
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        inputs = tokenizer([sentences[i] for i in chosen], return_tensors="pt", padding=True).to(model.device)
        ids = model.generate(**inputs, num_beams=beams)
        done.update(zip(chosen, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True))
    return [done[i] for i in range(len(sentences))]


AutoConfig.register(TranslatorConfig.model_type, TranslatorConfig)
AutoModel.register(TranslatorConfig, Translator)
AutoModelForSeq2SeqLM.register(TranslatorConfig, Translator)
