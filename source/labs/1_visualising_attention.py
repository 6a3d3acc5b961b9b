# %% [markdown]
# # Lab 1: Visualising attention
#
# You take the attention weights out of a real model, look at them in several ways, and learn which of the things you see
# are there. It takes an hour. You write code in five places and a short report.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch

from utils import figures, lab1, measures, plots, widgets
from utils.attention import attention_maps, head_statistics, rollout
from utils.corpora import passages
from utils.exercises import check
from utils.models import load, quiet, untrained

plots.use_style()

# %% [markdown]
# ## Objectives
#
# You can index a tensor, and you have seen a Transformer on one page ([prerequisites](../pages/prerequisites.md)). With
# this notebook in front of you, you will be able to
#
# - **extract** the attention weights of any Hugging Face model, and notice when the library hands you none;
# - **read** a map without turning it round, on tokens and on words, with and without special tokens;
# - **measure** what every head does over a corpus, and hold it against three models with random weights;
# - **find** positional heads by a rule that you can state, chosen on one half of the texts and reported on the other;
# - **judge** what a picture of attention supports: five sentences on one head that score 8 of 10 by the rubric.
#
# | part | minutes | you write |
# |---|---|---|
# | 1–2 Load a model, take the weights out | 5 | |
# | 3 Read a map | 5 | Exercise L1.1 |
# | 4 Heat maps | 7 | Exercise L1.2 |
# | 5 All heads at once | 3 | |
# | 6 From pieces to words | 8 | Exercise L1.3 |
# | 7 Special tokens and sinks | 4 | |
# | 8 Every head over a corpus | 8 | Exercise L1.4 |
# | 9 Positional heads by rule | 8 | Exercise L1.5 |
# | 10 Rollout | 4 | |
# | 11 Your own sentence | 3 | |
# | 12 Report | 5 | the report |
#
# Running everything takes less than a minute; nothing is cached. Each exercise ends in a `check`. Until you have written
# something it says "not attempted yet", so the notebook always runs to its end. Optional exercises stand after the report.

# %% [markdown]
# ## 1 Load a model
#
# `load("minilm")` gives all-MiniLM-L6-v2, a small encoder for English sentences {cite}`minilm2020,reimers2019`, out of an
# installed package: no network is needed. Any other name is a local folder that holds a model, or a name on the Hugging
# Face Hub: `load("my-folder/my-model")`, `load("bert-base-uncased")`. The class is the one that the model's own
# configuration asks for.

# %%
model, tokenizer = load("minilm")
config = model.config
n_layers, n_heads = config.num_hidden_layers, config.num_attention_heads
print(f"{n_layers} layers × {n_heads} heads, width {config.hidden_size}")

# %% [markdown]
# ## 2 Take the weights out
#
# Most tutorials ask the model itself, with `output_attentions=True`.
#
# :::{div} predict
# **Predict.** Six layers of twelve heads. How many tensors of attention come back: 6, 72 or 0?
# :::

# %%
sentence = (
    "The key that opens the old doors was lost, "
    "so the locksmith unscrewed the doorknob."
)
inputs = tokenizer(sentence, return_tensors="pt")
with quiet(), torch.no_grad():  # quiet: hides the library's warning
    outputs = model(**inputs, output_attentions=True)
print(f"{len(outputs.attentions)} tensors of attention")

# %%
# The trap: no weights, and no error.
assert config._attn_implementation == "sdpa"
assert len(outputs.attentions) == 0

# %% [markdown]
# transformers 5 computes attention with a fused kernel (`sdpa`) unless told otherwise. Such a kernel never holds the matrix
# of weights, so it has none to give. A loop over `outputs.attentions` then runs zero times, and whatever you were counting
# stays at zero.
#
# `attention_maps` switches to plain ("eager") attention for one pass, in evaluation mode and in 32-bit floats, and puts
# everything back. Dropout or half precision would give rows that do not sum to 1. It also refuses what does not fit: the
# maps of 2,000 tokens in a model of 12 × 12 heads take 2.3 GB, and `layers=` takes fewer.

# %%
maps = attention_maps(model, tokenizer, sentence)["encoder"]
maps

# %%
tokens = len(maps.queries)
assert maps.weights.shape == (n_layers, n_heads, tokens, tokens)
assert (maps.weights.sum(dim=-1) - 1).abs().max() < 1e-5  # rows sum to 1
assert config._attn_implementation == "sdpa"  # the model is as it was

# %% [markdown]
# The result is a dictionary, because models differ: a BERT has `"encoder"` maps, a GPT has `"decoder"` maps with zeros
# above the diagonal, a translation model has both and rectangular `"cross"` maps.

# %% [markdown]
# ## 3 Read a map
#
# **A row is a query: the token that reads. A column is a key: the token that is read.** Rows sum to 1, columns need not.
# `maps.head(0, 2)` is head 2 of layer 0; both counts start at 0.

# %% tags=["claim"] mystnb={"figure": {"name": "fig-lab1-map", "caption": "One head, one sentence. Take a row and go to its dark cell: \u201cdoors\u201d reads \u201cold\u201d. Every token reads the one before it."}, "image": {"alt": "A heat map of 25 by 25 word pieces. A dark line of cells runs just below the diagonal; everything else is white."}}
figure, ax = plt.subplots(figsize=(6.5, 5.4))
before = maps.head(0, 2)
plots.heatmap(
    before,
    maps.queries,
    maps.keys,
    title="Layer 0, head 2 reads the token before",
    ax=ax,
)
assert before.diagonal(offset=-1).mean() > 0.9

# %% [markdown]
# Reading goes from row to column: the query “doors” looks at the key “old”. Content goes the other way: something about
# “old” is added to “doors”. If you draw arrows, say which of the two they show. [Chapter 1](../chapters/01-asymmetry.ipynb)
# shows the direction by changing one token.
#
# ::::{div} exercise
# **Exercise L1.1** · difficulty 1/5 · about 3 minutes · needs part 3
#
# Return the key that a given query reads most.
#
# :::{dropdown} Hint
# `queries.index(query)` is the number of the row.
# :::
# ::::


# %%
def reads_most(weights, queries, keys, query):
    """The key that one query reads most, as a label.

    weights: (queries, keys); queries, keys: their labels; query: a label.
    """
    ### BEGIN SOLUTION
    row = weights[queries.index(query)]
    return keys[int(row.argmax())]
    ### END SOLUTION


check("L1.1", reads_most, lab1.follows_the_row)

# %% [markdown]
# ## 4 Heat maps
#
# seaborn draws a matrix with its labels in one call. Three choices are yours: the labels on the right axes, a scale that
# starts at 0, and colours that leave the page white where nothing is.

# %% tags=["claim"] mystnb={"figure": {"name": "fig-lab1-seaborn", "caption": "A head that looks ahead, drawn with seaborn alone. Some tokens read the first column instead: part 7 is about that column."}, "image": {"alt": "A heat map of 25 by 25 word pieces. A line of dark cells runs just above the diagonal, with gaps; where it has gaps, the column of the token CLS is dark."}}
after = maps.head(1, 8)
figure, ax = plt.subplots(figsize=(6.5, 5.4))
labels = {"xticklabels": maps.keys, "yticklabels": maps.queries}
look = {"vmin": 0, "cmap": plots.amounts(), "square": True}
sns.heatmap(after, ax=ax, **look, **labels)
ax.set(xlabel="key (is read)", ylabel="query (reads)")
ax.set_title("Layer 1, head 8 reads the token after")
assert after.diagonal(offset=1).mean() > 0.5
assert after.diagonal(offset=-1).mean() < 0.1

# %% [markdown]
# Put two maps side by side and a new error appears: each panel takes its own scale, and the same colour means 0.9 in one
# and 0.2 in the other.
#
# ::::{div} exercise
# **Exercise L1.2** · difficulty 2/5 · about 6 minutes · needs part 4
#
# Draw two maps of one sentence side by side, with **one** scale for both, from 0 to the larger maximum. Return the two
# axes. When it passes, look at a pair: `draw_pair(maps.head(0, 2), maps.head(0, 5), maps.queries, maps.keys)`.
#
# :::{dropdown} Hint
# `figure, axes = plt.subplots(1, 2, figsize=(9, 4))`, then `sns.heatmap(first, ax=axes[0], …)`.
# :::
# :::{dropdown} Second hint
# `vmin` and `vmax` fix the scale. Take one `vmax` for both: `max(first.max(), second.max())`.
# :::
# ::::


# %%
def draw_pair(first, second, queries, keys):
    """Two heat maps on one scale; returns their two axes.

    first, second: (queries, keys); queries, keys: their labels.
    """
    ### BEGIN SOLUTION
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    scale = {"vmin": 0, "vmax": float(max(first.max(), second.max()))}
    labels = {"xticklabels": keys, "yticklabels": queries}
    for ax, weights in zip(axes, (first, second), strict=True):
        sns.heatmap(weights, cmap=plots.amounts(), ax=ax, **scale, **labels)
        ax.set(xlabel="key (is read)", ylabel="query (reads)")
    return axes
    ### END SOLUTION


check("L1.2", draw_pair, lab1.two_maps_one_scale)

# %% [markdown]
# ## 5 All heads at once
#
# One head is an anecdote. Here are the twelve heads of one layer, on one scale.

# %% tags=["claim"] mystnb={"figure": {"name": "fig-lab1-layer", "caption": "The twelve heads of layer 1 on the same sentence. A few draw a diagonal; all put weight under the first token, [CLS]."}, "image": {"alt": "Twelve small heat maps. Head 8 shows a line above the diagonal, heads 9 and 11 a line below it; all have a dark first column."}}
figure, grid = plt.subplots(2, 6, figsize=(9, 3.4))
look = {"cmap": plots.amounts(), "vmin": 0, "vmax": 1, "square": True}
plain = {"cbar": False, "xticklabels": False, "yticklabels": False}
for head, ax in enumerate(grid.flat):
    sns.heatmap(maps.head(1, head), ax=ax, **look, **plain)
    ax.set_title(f"head {head}")
title = "Layer 1: row = query, column = key; white 0, dark 1"
figure.suptitle(title, x=0.01, ha="left", weight="bold")
first_column = maps.weights[1, :, :, 0].mean(dim=-1)  # by head
assert (first_column > 0.25).sum() >= 10 and first_column.min() > 0.2

# %% [markdown]
# And all 72, to explore. Choose a head in the grid, then point at a word, or use the arrow keys, to read its row. Look for
# a head that you can name in two words.

# %%
figures.attention_explorer(
    maps,
    title="72 heads on one sentence",
    layer=1,
    head=8,
    row="opens",
    alt="The 72 heads of MiniLM on the sentence about a locksmith.",
)

# %% [markdown]
# :::{div} speaker-notes
# 3 minutes. Let pairs find "their" head and keep its number for the report. Expect previous token, next token and the
# first column. That is the point: one sentence hardly shows a fourth kind.
# :::

# %% [markdown]
# ## 6 From pieces to words
#
# The tokenizer cuts rare words into pieces, and a map has one row and one column for each *piece*.

# %%
print(" · ".join(maps.queries[:15]))
print(" · ".join(maps.queries[15:]))
assert {"locks", "mith"} <= set(maps.queries)

# %% [markdown]
# To speak about words you have to merge rows and merge columns, and they merge differently {cite}`clark2019`:
#
# - **to** a word: the *sum* over its pieces. Whoever reads both halves reads the whole;
# - **from** a word: the *mean* over its pieces. A word is one reader, and its row must still sum to 1.
#
# :::{div} predict
# **Predict.** “unscrewed” has four pieces. Someone sums in both directions. What does the row of “unscrewed” sum to?
# :::

# %%
words = maps.words()
number = words.query_words[words.queries.index("unscrewed")]
pieces = [i for i, word in enumerate(maps.query_words) if word == number]
summed = maps.weights[:, :, pieces].sum(dim=2)  # wrong: sum of readers
print(f"{len(pieces)} pieces, summed row {summed.sum(dim=-1).mean():.1f}")
assert len(pieces) == 4 and (summed.sum(dim=-1) - 4).abs().max() < 1e-4
assert (words.weights.sum(dim=-1) - 1).abs().max() < 1e-5  # .words(): 1

# %% [markdown]
# ::::{div} exercise
# **Exercise L1.3** · difficulty 3/5 · about 6 minutes · needs part 6
#
# Turn a map between pieces into one between words. `words[i]` is the number of the word that piece `i` belongs to, counted
# from 0.
#
# :::{dropdown} Hint
# `member = torch.nn.functional.one_hot(torch.tensor(words)).float()` says which piece (row) is in which word (column).
# :::
# :::{dropdown} Second hint
# `weights @ member` sums over the pieces that are read. For the mean over readers, divide each column of `member` by its
# sum, then multiply from the left.
# :::
# ::::


# %%
def to_words(weights, words):
    """Weights between words, (words, words), from those between pieces.

    weights: (pieces, pieces); words: a list, the word of each piece.
    """
    ### BEGIN SOLUTION
    member = torch.nn.functional.one_hot(torch.tensor(words)).float()
    readers = member / member.sum(dim=0)
    return readers.T @ weights @ member
    ### END SOLUTION


check("L1.3", to_words, lab1.merges_readers_and_read)

# %% [markdown]
# ## 7 Special tokens and sinks
#
# The tokenizer puts `[CLS]` before and `[SEP]` after each text. You saw the dark column under `[CLS]`. How much of all
# attention is it?
#
# :::{div} predict
# **Predict.** In “The cat sat on the mat.” two of nine tokens are special. Which share of the attention of the other seven
# do they get: about 20 %, 40 % or 60 %?
# :::

# %%
texts = passages(32, words=40)
groups = {
    "9 tokens": ["The cat sat on the mat."],
    "25 tokens": [sentence],
    "40 words": texts[:16],
}
null_models = [untrained(model, seed=seed) for seed in range(3)]


def special_share(model, texts):
    """Share of weight on special tokens: (texts, layers, heads)."""
    shares = []
    for text in texts:
        found = attention_maps(model, tokenizer, text)["encoder"]
        shares.append(found.without_special().dropped)
    return torch.stack(shares)


# %% tags=["claim"]
shares = {k: special_share(model, each) for k, each in groups.items()}
null = {k: special_share(null_models[0], groups[k]) for k in groups}
by_layer = {k: share.mean(dim=(0, 2)) for k, share in shares.items()}
table = {
    "trained": [float(share.mean()) for share in shares.values()],
    "lowest layer": [float(share.min()) for share in by_layer.values()],
    "highest layer": [float(share.max()) for share in by_layer.values()],
    "untrained": [float(share.mean()) for share in null.values()],
}
table = pd.DataFrame(table, index=list(groups))
assert 0.5 < table.trained["9 tokens"] < 0.65
assert (table.trained > 2 * table.untrained).all()
assert table.trained.min() > 0.25
table.round(2)

# %% [markdown]
# More than half, on a short sentence. Does the model find `[CLS]` important?
#
# A weight says how large a share of a key's **value** is taken, not how much there is to take. What head $h$ adds to token
# $i$ when it reads token $j$ is $P_{ij}\, v_j W_O^{h}$. Its length is the weight times the length of $v_j W_O^{h}$
# {cite}`kobayashi2020`.


# %%
@torch.no_grad()
def value_lengths(model, text):
    """Length of v W_O of every key, for a BERT: (layers, heads, keys)."""
    batch = tokenizer(text, return_tensors="pt")
    hidden = model(**batch, output_hidden_states=True).hidden_states
    lengths = []
    for x, layer in zip(hidden[:-1], model.encoder.layer, strict=True):
        value, out = layer.attention.self.value, layer.attention.output
        values = value(x)[0].unflatten(-1, (n_heads, -1))
        w_o = out.dense.weight.unflatten(-1, (n_heads, -1))
        added = torch.einsum("khd,whd->hkw", values, w_o)
        lengths.append(added.norm(dim=-1))
    return torch.stack(lengths)


# %%
def contribution_share(model, texts):
    """As ``special_share``, for weight × length of the value."""
    shares = []
    for text in texts:
        found = attention_maps(model, tokenizer, text)["encoder"]
        added = found.weights * value_lengths(model, text)[:, :, None]
        added = added[:, :, ~found.special_queries]
        special = added[..., found.special_keys].sum(dim=-1)
        shares.append((special / added.sum(dim=-1)).mean(dim=-1))
    return torch.stack(shares)


# %% tags=["claim"]
special = {
    "weight": shares["40 words"],
    "contribution": contribution_share(model, texts[:16]),
    "weight, untrained": null["40 words"],
}
unlearned = contribution_share(null_models[0], texts[:16])
special["contribution, untrained"] = unlearned
special = {name: share.mean(dim=0) for name, share in special.items()}
assert special["contribution"].mean() < 0.4 * special["weight"].mean()
assert (special["contribution"] < special["weight"]).float().mean() > 0.9
{name: round(float(share.mean()), 2) for name, share in special.items()}

# %% mystnb={"figure": {"name": "fig-lab1-sinks", "caption": "What the two special tokens get and give, one dot a head. Trained heads spend nearly a third of their weight on them and take little from them, because their value vectors are short. Untrained heads give them what two tokens among fifty would get."}, "image": {"alt": "Four strips of dots from 0 to 1. Weight spreads from 0 to 0.7. Contribution lies mostly below 0.1. Both untrained strips are narrow and close to zero."}}
plots.strips(
    special,
    x="share of the special tokens",
    title="A sink takes attention and gives little",
    null=["weight, untrained", "contribution, untrained"],
);

# %% [markdown]
# Such a column is called a **sink**: a row has to sum to 1, and this is where it puts the weight that it has no use for.
# Sinks are found in many large models and have been explained in several ways {cite}`xiao2024,gu2025,barbero2025`. **A sink is
# not importance.** (Nor is it waste: without it, the weight would have to go to words. And lengths are a rough measure, since
# vectors may cancel when they are added.)
#
# You may drop the special tokens and divide each row by what is left. Then say so, and say how much you dropped:
# `maps.without_special()` keeps it in `.dropped`. If a head had 0.9 on `[CLS]`, the picture without `[CLS]` shows the
# remaining tenth, enlarged tenfold.

# %% [markdown]
# ## 8 Every head over a corpus
#
# One sentence shows what a head *can* do. What it usually does takes many. `head_statistics` averages over all ordinary
# tokens of all texts and returns one row a head. The texts are 32 passages of the Python documentation.
#
# - **entropy**, here divided by its largest value: 0 for a row with a single cell, 1 for a uniform row;
# - **distance**: mean distance in tokens between query and key;
# - **offset profile**: the share of weight on the token before (−1), on the token itself (0), on the token after (+1), …;
# - **best offset**: the share of tokens whose *greatest* weight lies at the head's most frequent offset.
#
# :::{div} predict
# **Predict.** Where do heads with *random* weights lie on entropy: near 0, in the middle, near 1?
# :::

# %% tags=["claim"]
trained = head_statistics(model, tokenizer, texts)
null = [head_statistics(each, tokenizer, texts) for each in null_models]
null = pd.concat(null, keys=range(3), names=["seed"])
assert trained.normalized_entropy.max() < null.normalized_entropy.min()
assert trained.distance.std() > 5 * null.distance.std()
columns = {
    "normalized_entropy": "entropy",
    "distance": "distance",
    "self_share": "on itself",
    "best_offset_share": "best offset",
}
tables = {"trained": trained, "untrained": null}
tables = {
    k: t[list(columns)].rename(columns=columns) for k, t in tables.items()
}
summary = {k: t.agg(["mean", "min", "max"]) for k, t in tables.items()}
pd.concat(summary).round(2)

# %% mystnb={"figure": {"name": "fig-lab1-corpus", "caption": "Entropy and distance of every head over 32 passages, one dot a head. Untrained heads are all alike: uniform. Training sharpens every head and spreads them over short and long distances."}, "image": {"alt": "Two panels with two strips each. Untrained dots form a narrow band near 1 for entropy and near 19 tokens for distance; trained dots spread from 0 to 0.96 and from 1 to 24 tokens."}}
figure, axes = plt.subplots(1, 2, figsize=(9, 2.5), sharey=True)
figure.get_layout_engine().set(wspace=0.08)
labels = {
    "normalized_entropy": "entropy (1: uniform)",
    "distance": "tokens away",
}
for ax, (column, label) in zip(axes, labels.items(), strict=True):
    values = {"trained": trained[column], "untrained": null[column]}
    plots.strips(values, x=label, null=["untrained"], ax=ax)
title = "Training makes heads sharp, and different from each other"
figure.suptitle(title, x=0.01, ha="left", weight="bold");

# %% tags=["claim"] mystnb={"figure": {"name": "fig-lab1-offsets", "caption": "Offset profile of every head: where its weight lies relative to the query. A few heads put much of it on one neighbour; most have no favourite offset."}, "image": {"alt": "A heat map with seven rows, offsets minus 3 to plus 3, and 72 columns, the heads in order of layers. Two dark cells and some paler ones lie in the rows minus 1 and plus 1, most of them in layers 0 to 2."}}
names = [f"offset_{offset}" for offset in range(-3, 4)]
profile = trained[names].to_numpy().T  # (offsets, heads)
figure, ax = plt.subplots(figsize=(9, 2.6))
sns.heatmap(profile, ax=ax, vmin=0, vmax=1, cmap=plots.amounts())
ax.set_yticklabels([name[7:] for name in names], rotation=0)
ax.set_xticks(np.arange(6) * 12 + 6, labels=range(6), rotation=0)
ax.set(xlabel="layer (twelve heads each)", ylabel="offset of the key")
ax.set_title("Few heads have a favourite offset")
assert 1 <= (profile.max(axis=0) > 0.5).sum() <= 10
assert null[names].max(axis=None) < 0.1

# %% [markdown]
# ::::{div} exercise
# **Exercise L1.4** · difficulty 2/5 · about 5 minutes · needs part 8
#
# For one map, return the share of queries whose **greatest** weight lies exactly `offset` tokens away (−1: the token
# before). Count only queries that have a token at that offset.
#
# :::{dropdown} Hint
# `weights.argmax(dim=-1)` is the key that each query reads most. The offset is key − query.
# :::
# :::{dropdown} Second hint
# Query 0 has no token before it, and the last query none after it. Leave such queries out of the mean.
# :::
# ::::


# %%
def share_at(weights, offset):
    """Share of queries that read most the key at ``offset``, from 0 to 1.

    weights: (tokens, tokens).
    """
    ### BEGIN SOLUTION
    queries = torch.arange(len(weights))
    target = queries + offset
    exists = (target >= 0) & (target < len(weights))
    hits = weights.argmax(dim=-1) == target
    return float(hits[exists].float().mean())
    ### END SOLUTION


check("L1.4", share_at, lab1.counts_the_greatest_weights)

# %% [markdown]
# ## 9 Positional heads by rule
#
# “This head looks at the previous token” is a claim, and a claim needs a rule. Voita et al. {cite}`voita2019` call a head
# **positional** if its greatest weight falls on one fixed neighbour, −1 or +1, for at least 90 % of the tokens.
#
# The rule leaves two things open, so say them. Here special tokens do not compete for the greatest weight, and a token at
# the edge of a text counts although it has no neighbour.
#
# Among 72 heads, the best one on *these* texts looks a little better than it is. So choose on one half of the passages, and
# report on the other.
#
# :::{div} predict
# **Predict.** Voita et al. name positional heads as one of three main classes. How many of our 72 heads pass?
# :::

# %% tags=["claim"]
chosen_on = head_statistics(model, tokenizer, texts[:16])
reported_on = head_statistics(model, tokenizer, texts[16:])
passing = measures.positional_heads(chosen_on, share=0.9)
passing = passing.set_index(["layer", "head"])
assert list(passing.index) == [(0, 2), (1, 8)]
assert len(measures.positional_heads(null)) == 0  # of 3 × 72 untrained
passing[["best_offset", "best_offset_share"]].round(2)

# %% [markdown]
# Two of 72, on the half that chose them. Now the other half: the two, and the four that came closest. The last column asks
# the rule again with `[CLS]` and `[SEP]` as competitors.


# %%
def with_special(heads, texts):
    """Share of tokens that read most at an offset, special keys included.

    heads: a list of (layer, head, offset).
    """
    hits = []
    for text in texts:
        found = attention_maps(model, tokenizer, text)["encoder"]
        places = torch.arange(len(found.keys))
        away = found.weights.argmax(dim=-1) - places
        away = away[:, :, ~found.special_queries]
        hits.append(torch.stack([away[i, h] == o for i, h, o in heads]))
    return torch.cat(hits, dim=1).float().mean(dim=1)


# %% tags=["claim"]
neighbours = chosen_on[chosen_on.best_offset.abs() == 1]
best = neighbours.nlargest(6, "best_offset_share")
best, again = (t.set_index(["layer", "head"]) for t in (best, reported_on))
heads = [(*place, offset) for place, offset in best.best_offset.items()]
columns = {
    "best_offset": best.best_offset,
    "chosen on": best.best_offset_share,
    "reported": [again.loc[(i, h), f"argmax_{o}"] for i, h, o in heads],
    "reported, [CLS] may win": with_special(heads, texts[16:]).tolist(),
}
table = pd.DataFrame(columns)
# The same two pass again. With [CLS] as a competitor, one does.
assert list(table["reported"] >= 0.9) == [True, True] + 4 * [False]
assert (table["reported, [CLS] may win"] >= 0.9).sum() == 1
table.round(2)

# %% mystnb={"figure": {"name": "fig-lab1-rule", "caption": "Share of tokens whose greatest weight lies at the head's better neighbour, on the half used to choose and on the half used to report. Two heads pass on both, in the upper right corner. What a head does is stable over texts; the line at 0.9 is a convention, and two heads lie just below it."}, "image": {"alt": "A scatter plot of 72 heads along the diagonal. Two dots lie beyond 0.9 on both axes, two between 0.84 and 0.9, the others are spread down to zero. Grey dots of an untrained model crowd near zero."}}
null_halves = [
    head_statistics(null_models[0], tokenizer, half)
    for half in (texts[:16], texts[16:])
]
figure, ax = plt.subplots(figsize=(4.6, 4.6))
sides = ["argmax_-1", "argmax_1"]
pairs = {"positional": (chosen_on, reported_on), "null": null_halves}
for shade, (first, second) in pairs.items():
    chosen, reported = first[sides].to_numpy(), second[sides].to_numpy()
    side = chosen.argmax(axis=1)  # chosen on the first half, too
    points = chosen[range(72), side], reported[range(72), side]
    ax.scatter(*points, s=16, color=plots.colour(shade), alpha=0.8, lw=0)
for place, two in [((0.88, 0.95), heads[:2]), ((0.81, 0.85), heads[2:4])]:
    ax.text(*place, ", ".join(f"L{i}H{h}" for i, h, _ in two), ha="right")
ax.axhline(0.9, lw=0.8, color=plots.colour("text"))
ax.axvline(0.9, lw=0.8, color=plots.colour("text"))
ax.set(xlabel="half that chooses", ylabel="half that reports", aspect=1)
ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
ax.set_title("Two of 72 heads are positional by the rule");

# %% [markdown]
# ::::{div} exercise
# **Exercise L1.5** · difficulty 3/5 · about 6 minutes · needs part 9
#
# Write the rule as a function of two tables of `head_statistics`: return the list of `(layer, head)` that pass on `choose`
# **and** pass again on `report` at the same offset. The columns you need are `layer`, `head`, `best_offset` and
# `best_offset_share`.
#
# :::{dropdown} Hint
# One table for both: `choose.merge(report, on=["layer", "head"], suffixes=("", "_again"))`. Do not rely on the order of rows.
# :::
# :::{dropdown} Second hint
# Three conditions: the offset is −1 or +1; the share is at least 0.9 in both; the offset is the same in both.
# :::
# ::::


# %%
def confirmed(choose, report, share=0.9):
    """Heads that pass on both tables: a list of (layer, head)."""
    ### BEGIN SOLUTION
    keys = ["layer", "head"]
    both = choose.merge(report, on=keys, suffixes=("", "_again"))
    passes = both.best_offset_share.ge(share) & both.best_offset.isin([-1, 1])
    again = both.best_offset_share_again.ge(share)
    same = both.best_offset == both.best_offset_again
    found = both.loc[passes & again & same, keys]
    return list(found.itertuples(index=False, name=None))
    ### END SOLUTION


check("L1.5", confirmed, lab1.chooses_then_confirms)

# %% [markdown]
# ## 10 Rollout
#
# A map shows one layer. By layer 5 a “token” is a mixture of many. **Attention rollout** {cite}`abnar2020` multiplies the
# layers: with $A_\ell$ the heads of layer $\ell$ fused into one matrix,
#
# $$R_\ell = \tilde A_\ell R_{\ell-1}, \qquad \tilde A_\ell = \tfrac12 I + \tfrac12 A_\ell, \qquad R_{-1} = I.$$
#
# Three assumptions are built in. The residual stream and the attention carry half each. A weight is a share of content
# (part 7 says otherwise), and the MLP moves nothing. And the heads are **fused by a rule**: usually the mean; the maximum
# and the minimum are in use too.
#
# :::{div} predict
# **Predict.** Does the rule matter for the answer to “which words count most”?
# :::

# %% tags=["claim"] mystnb={"figure": {"name": "fig-lab1-rollout", "caption": "What the tokens of one sentence read from its pieces through all six layers, by three fusion rules. All three send most to [CLS], the maximum least. Of the words, each rule prefers others."}, "image": {"alt": "A heat map of three rows, mean, max and min, and 25 word pieces. The first column, CLS, is the darkest in each row. The row of the maximum has the palest first column; in the row of the minimum the word opens stands out."}}
rules = ["mean", "max", "min"]
rolled = [rollout(maps, fusion=rule)[-1] for rule in rules]
read = torch.stack([r[~maps.special_queries].mean(dim=0) for r in rolled])
figure, ax = plt.subplots(figsize=(9, 2.2))
labels = {"xticklabels": maps.keys, "yticklabels": rules}
sns.heatmap(read, ax=ax, vmin=0, cmap=plots.amounts(), **labels)
ax.set(xlabel="key", ylabel="fusion")
ax.tick_params(axis="y", rotation=0)
ax.set_title("Rollout depends on how heads are fused")
first = dict(zip(rules, read[:, 0].tolist(), strict=True))  # on [CLS]
assert first["min"] > first["mean"] > first["max"] > 0.15
assert (read.argmax(dim=1) == 0).all()  # each rule sends most to [CLS]

# %% [markdown]
# Which rule is right? Ask the model. Delete one piece of a text and see how far the sentence embedding moves: an effect,
# measured without attention. Then see how well each way of ranking the pieces agrees with it, by rank correlation.
#
# Two rankings are there to be beaten: rollout of untrained models, and “rare pieces first”, which does not look at the model
# at all.


# %%
@torch.no_grad()
def effects(text):
    """How far the sentence embedding moves without piece j: (pieces,)."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"][0]
    ordinary = range(1, len(ids) - 1)
    shorter = [torch.cat([ids[:j], ids[j + 1 :]]) for j in ordinary]
    whole = model(ids[None]).last_hidden_state.mean(dim=1)
    parts = model(torch.stack(shorter)).last_hidden_state.mean(dim=1)
    return 1 - torch.cosine_similarity(whole, parts)


def read_by_words(matrix, maps):
    """What ordinary tokens read from each ordinary token: (pieces,)."""
    return matrix[~maps.special_queries].mean(dim=0)[~maps.special_keys]


# %%
def rankings(text, null_model):
    """Five ways to say how much each piece counts: name → (pieces,)."""
    found = attention_maps(model, tokenizer, text)["encoder"]
    other = attention_maps(null_model, tokenizer, text)["encoder"]
    weights = {f"rollout, {r}": rollout(found, r)[-1] for r in rules}
    weights["mean of all maps"] = found.weights.mean(dim=(0, 1))
    weights["rollout, untrained"] = rollout(other, fusion="mean")[-1]
    ranks = {name: read_by_words(w, found) for name, w in weights.items()}
    # BERT's vocabulary begins with common pieces: a large id is rare.
    ranks["rare pieces first"] = tokenizer(text)["input_ids"][1:-1]
    return {name: pd.Series(each, dtype=float) for name, each in ranks.items()}


# %% tags=["claim"]
rows = []
for number, text in enumerate(passages(24, words=16)):
    effect = pd.Series(effects(text))
    ranks = rankings(text, null_models[number % 3])  # seeds in turn
    row = {k: each.corr(effect, "spearman") for k, each in ranks.items()}
    rows.append(row)
agreement = pd.DataFrame(rows)
mean = agreement.mean()
assert mean["rollout, max"] > mean["rollout, mean"] + 0.15
assert mean["mean of all maps"] > mean["rollout, max"]
assert abs(mean["rare pieces first"] - mean["rollout, max"]) < 0.15
assert abs(mean["rollout, untrained"]) < 0.2
agreement.agg(["mean", "min", "max"]).T.round(1) + 0.0

# %% mystnb={"figure": {"name": "fig-lab1-effects", "caption": "Rank correlation with the effect of deleting a piece, one dot a text. The fusion rule decides whether rollout looks good. The plain mean of all maps, without any rollout, does better here, and a list of rare pieces does about as well as the best rollout."}, "image": {"alt": "Six strips of dots. The mean of all maps lies highest, near 0.7, rollout by maximum and rare pieces near 0.6, rollout by mean near 0.3, by minimum near 0.1, untrained rollout around zero."}}
plots.strips(
    dict(agreement),
    x="rank correlation with the measured effect",
    title="The fusion rule decides how good rollout looks",
    null=["rare pieces first", "rollout, untrained"],
    reference=0.0,
);

# %% [markdown]
# So rollout is a summary with a choice inside, not a measurement of importance. Abnar and Zuidema found it closer to such
# effects than raw attention, on other models and tasks; on ours the mean of all raw maps is closer still. Whether attention
# explains anything has been argued both ways {cite}`jain2019,wiegreffe2019`, mostly on recurrent classifiers. What is not
# in dispute: if you want an effect, intervene and measure it.

# %% [markdown]
# ## 11 Your own sentence
#
# Any sentence can be drawn, a Korean one too: the figures are HTML, so your browser brings the letters. The model is another
# matter: **it was trained on English and does not read Korean.** See what reaches it.

# %%
korean = {
    "나는 도서관에서 책을 읽었다.": "I read a book in the library.",
    "날씨가 추워서 창문을 닫았다.": "It was cold, so I closed the window.",
    "기차가 늦게 도착했다.": "The train arrived late.",
    "의사가 환자에게 약을 주었다.": "The doctor gave the patient medicine.",
    "우리는 산에서 별을 보았다.": "We saw stars on the mountain.",
    "학생들이 시험을 준비한다.": "The students are preparing for an exam.",
    "은행이 금리를 올렸다.": "The bank raised interest rates.",
    "나는 커피보다 차를 좋아한다.": "I like tea more than coffee.",
}


def is_letter(piece):
    """True for a single Hangul letter (jamo), false for a syllable."""
    letter = piece.removeprefix("##")
    return len(letter) == 1 and "\u1100" <= letter <= "\u11ff"


# %%
pieces = [tokenizer.tokenize(text) for text in korean]
counts = {
    "words": [len(text.split()) for text in korean],
    "pieces": [len(each) for each in pieces],
    "letters": [sum(map(is_letter, each)) for each in pieces],
    "[UNK]": [each.count("[UNK]") for each in pieces],
    "in English": [len(tokenizer.tokenize(en)) for en in korean.values()],
}
table = pd.DataFrame(counts, index=list(korean))
assert table["letters"].sum() > 0.8 * table["pieces"].sum()
assert (table["[UNK]"] > 0).sum() >= 5
table

# %% [markdown]
# Syllables are taken apart into letters, and a word with one letter that the vocabulary lacks becomes `[UNK]` as a
# whole. Does the model still get the meaning? Compare each sentence with its translation, and unrelated sentences
# with each other.

# %% tags=["claim"]
@torch.no_grad()
def embed(texts):
    """Sentence embeddings of length 1: (texts, width)."""
    batch = tokenizer(list(texts), padding=True, return_tensors="pt")
    mask = batch["attention_mask"][..., None]
    total = (model(**batch).last_hidden_state * mask).sum(dim=1)
    return total / total.norm(dim=-1, keepdim=True)


ko, en = embed(korean), embed(korean.values())
own = torch.eye(len(korean), dtype=torch.bool)
cosines = {
    "Korean sentence, its translation": (ko @ en.T)[own].mean(),
    "Korean sentence, another translation": (ko @ en.T)[~own].mean(),
    "two unrelated sentences in Korean": (ko @ ko.T)[~own].mean(),
    "two unrelated sentences in English": (en @ en.T)[~own].mean(),
}
across, other, in_korean, in_english = cosines.values()
assert abs(across - other) < 0.1 and in_korean > in_english + 0.3
pd.Series(cosines, name="cosine", dtype=float).round(2).to_frame()

# %% [markdown]
# A translation is hardly closer than any other sentence, and all Korean looks alike.
#
# In JupyterLab or Notebook, the next cell gives you a box. Write a sentence in English or Korean, press the button, and read
# its heads. On the web page the box is left out, and you see its first sentence in a figure that needs no kernel. The maps
# are correct: this *is* what the model computes. They say nothing about Korean.

# %% tags=["remove-cell"]
widgets.sentence_explorer(model, tokenizer, list(korean)[0])

# %%
first_sentence = list(korean)[0]
korean_maps = attention_maps(model, tokenizer, first_sentence)["encoder"]
assert korean_maps.notices  # what the tokenizer did not read
figures.attention_explorer(
    korean_maps,
    title="An English model on a Korean sentence",
    layer=1,
    head=8,
    alt="The 72 heads of MiniLM on a Korean sentence, in letters.",
)

# %% [markdown]
# ## 12 Report
#
# Choose one head and write five sentences into the cell below. Your evidence is in this notebook: for any head,
# `reported_on.query("layer == 1 and head == 8").T` lists its statistics on the second half of the passages, and `null` holds
# the untrained heads.
#
# | | 0 points | 1 point | 2 points |
# |---|---|---|---|
# | **Claim** | none, or “it understands …” | says what the head does | says it so that a measurement could refute it |
# | **Evidence** | one picture | a number over the corpus | a number on texts that had no part in choosing the head |
# | **Null model** | none | untrained model named | its number beside yours, with the spread over seeds |
# | **Special tokens** | not mentioned | kept or dropped, said | with the share that they hold |
# | **Limits** | none | “attention is not explanation” | says which intervention would show an effect |
#
# 8 of 10 points is a good report.

# %% [markdown]
# **My head:** layer …, head …
#
# 1. *Claim.* This head …
# 2. *Evidence.* On passages that I did not use to choose it, …
# 3. *Null model.* In three models with random weights, …
# 4. *Special tokens.* I kept / dropped them; they hold … of its weight.
# 5. *Limits.* My numbers do not show that …; to show it I would …

# %% [markdown]
# :::{div} speaker-notes
# 5 minutes. A full answer: “L1H8 reads the next token. On 16 passages that did not choose it, its greatest weight among
# words lies at +1 for 97 % of tokens. In three untrained models no head passes 4 % at any offset. I left special tokens out;
# they hold a fifth of its weight, and with them the rule fails. That the model *needs* this head would take an ablation.”
# Likely wrong answers: “important” for “gets much weight”; the same half for choosing and reporting; a head named after one
# sentence. To save time, cut part 10.
# :::

# %% [markdown]
# ## If you have time
#
# ::::{div} exercise
# **Exercise L1.6** (optional) · difficulty 2/5 · about 5 minutes · needs part 7
#
# Take the special tokens out of one map: return the smaller map with rows that sum to 1, and the mean share of weight that
# ordinary rows had on special keys.
#
# :::{dropdown} Hint
# A boolean mask selects rows and columns: `weights[~special][:, ~special]`.
# :::
# ::::


# %%
def without(weights, special):
    """The map among ordinary tokens, and the share that was dropped.

    weights: (tokens, tokens); special: (tokens,), True for special tokens.
    """
    ### BEGIN SOLUTION
    rows = weights[~special]
    kept = rows[:, ~special]
    dropped = float(rows[:, special].sum(dim=-1).mean())
    return kept / kept.sum(dim=-1, keepdim=True), dropped
    ### END SOLUTION


check("L1.6", without, lab1.drops_and_says_how_much)

# %% [markdown]
# ::::{div} exercise
# **Exercise L1.7** (optional) · difficulty 2/5 · about 5 minutes · needs part 8
#
# Write the entropy of each row, in nats: $-\sum_j p_j \ln p_j$. A causal map is full of zeros.
#
# :::{dropdown} Hint
# $0 \ln 0$ counts as 0, but `0 * log(0)` is NaN. Look at `torch.where` or `torch.special.entr`.
# :::
# ::::


# %%
def row_entropy(weights):
    """Entropy of each row in nats: (queries, keys) → (queries,)."""
    ### BEGIN SOLUTION
    return torch.special.entr(weights).sum(dim=-1)
    ### END SOLUTION


check("L1.7", row_entropy, lab1.knows_the_ends_of_entropy)

# %% [markdown]
# ::::{div} exercise
# **Exercise L1.8** (optional) · difficulty 3/5 · about 8 minutes · needs part 5
#
# “The dog bites the man.” and “The man bites the dog.” hold the same pieces. Which head changes most between them? Return
# `(layer, head)` with the greatest mean absolute difference. Then look at it:
# `figures.attention_explorer(first, other=second, layer=…, head=…)`.
#
# :::{dropdown} Hint
# Average over the last two dimensions only. `divmod(index, heads)` turns a flat index into layer and head.
# :::
# ::::


# %%
def most_changed(first, second):
    """(layer, head) with the greatest mean absolute difference.

    first, second: (layers, heads, tokens, tokens).
    """
    ### BEGIN SOLUTION
    change = (first - second).abs().mean(dim=(-2, -1))
    return divmod(int(change.argmax()), change.shape[1])
    ### END SOLUTION


check("L1.8", most_changed, lab1.finds_the_changed_head)

# %% [markdown]
# ::::{div} exercise
# **Exercise L1.9** (optional) · difficulty 4/5 · about 12 minutes · needs part 10
#
# Write rollout by mean fusion. After every step rows must sum to 1.
#
# :::{dropdown} Hint
# Fuse first: `weights.mean(dim=1)` is (layers, tokens, tokens). Then mix with `torch.eye`, then multiply.
# :::
# :::{dropdown} Second hint
# The newest layer stands on the **left**: its queries are the rows of the result.
# :::
# ::::


# %%
def my_rollout(weights):
    """What is read after the last layer: (tokens, tokens).

    weights: (layers, heads, tokens, tokens).
    """
    ### BEGIN SOLUTION
    identity = torch.eye(weights.shape[-1])
    rolled = identity
    for layer in weights.mean(dim=1):
        rolled = (0.5 * identity + 0.5 * layer) @ rolled
    return rolled
    ### END SOLUTION


check("L1.9", my_rollout, lab1.multiplies_from_the_left)

# %% [markdown]
# ## Takeaways
#
# 1. A row reads, a column is read; merge words by mean over readers and sum over read; look at the backend before you count.
# 2. Weight is not importance: special tokens take 30 to 56 % of all weight here, and give a few per cent of what is added.
# 3. A head has a role when a stated rule holds on texts that did not choose it, and fails on random weights.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
