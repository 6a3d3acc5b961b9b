"""A subword tokenizer that both languages share, as a Hugging Face fast tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]  # ids 0 to 3, as TranslatorConfig expects
# A digit, a run of letters or one other sign, each with the space before it (shown as ▁): pieces never cross these.
UNIT = Regex(r"▁?\d|▁?[^\W\d_]+|▁?[^\s▁]|▁")


def train_tokenizer(sentences: Iterable[str], size: int, alphabet: int, longest: int = 160) -> PreTrainedTokenizerFast:
    """Byte-pair encoding (Sennrich et al. 2016, arXiv 1508.07909) of ``size`` pieces over the ``alphabet`` commonest
    characters. Text is brought to NFC, digits stay single, every sentence ends with ``</s>``; rarer characters are
    ``<unk>``.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(split=False), pre_tokenizers.Split(UNIT, "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, limit_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(sentences, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=longest,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
