# %% [markdown]
# # Heads of an encoder–decoder
#
# **The insight.** A translation Transformer has three types of attention. Without retraining some heads of each can go.
# Cross-attention, which brings the source to the target, is what the model can do without least, most of all in its last
# layer. Masking is no task of any head.

# %% tags=["hide-input"]
from contextlib import nullcontext

import pandas as pd
import torch
from IPython.display import display

from utils import alignment, claims, figures, planner, plots, target_tokens
from utils import encoder_decoder as ed
from utils.attention import attention_maps, head_statistics
from utils.corpora import translation_pairs
from utils.cross_explorer import cross_explorer
from utils.exercises import check
from utils.heads import Head, ablated, heads_of
from utils.importance import importance
from utils.models import load
from utils.models import untrained as without_training
from utils.pruning import order_by, random_order
from utils.sweeps import sweep
from utils.translator import translate

plots.use_style()
KINDS = ("encoder", "decoder", "cross")
stored = sweep("translator_heads")
claims.card(4)

# %% [markdown]
# ## Objectives
#
# You know self-attention, the causal mask and what a head is ([prerequisites](../pages/prerequisites.md)). With this
# notebook in front of you, you will be able to
#
# - **compare** three types of attention fairly: by number *and* by share of heads, by loss *and* by BLEU, against random
#   orders and over several models;
# - **read** an alignment from a cross map with a reference that is not attention, and **say** what it does not show;
# - **show** that the mask works without any head, and name what decoder heads do;
# - **weigh** shared keys and values (MQA, GQA) against removed heads.
#
# Reading takes about 35 minutes, running about half a minute. Curves with BLEU and a short tuning are cached
# (`data/sweeps/translator_heads.json`, `shared_heads.json`); losses are measured again, live, in part on other models.
#
# ## Three types side by side
#
# The translator turns English help texts into German: 6 encoder layers, 3 decoder layers, 8 heads each, trained for this
# book. A decoder layer has two attentions: one over the target written so far, one over the source.

# %% mystnb={"figure": {"caption": "One head of each type on one pair of sentences. The encoder reads the source in both directions. The decoder reads what is written so far: everything above its diagonal is 0. A cross map is a rectangle, target rows by source columns.", "name": "fig-cross-three"}, "image": {"alt": "Three heat maps. Left, encoder: a square, dark cells beside the diagonal. Middle, decoder: a square that is empty above its diagonal. Right, cross-attention: a rectangle with dark cells along a broken diagonal line."}}
model, tokenizer = load("translator")
english = "To change the color of the line, click the button."
german = translate(model, tokenizer, [english])[0]
maps = attention_maps(model, tokenizer, english, german)
chosen = {"encoder": (3, 2), "decoder": (0, 3), "cross": (1, 0)}
assert maps["decoder"].weights.triu(1).abs().max() == 0
assert maps["cross"].weights.shape[2:] == (
    len(maps["decoder"].queries),
    len(maps["encoder"].queries),
)
figure, axes = plots.plt.subplots(1, 3, figsize=(7.2, 3.0))
for ax, (kind, head) in zip(axes, chosen.items(), strict=True):
    ax.imshow(maps[kind].head(*head), cmap=plots.amounts(), vmin=0, vmax=1)
    ax.set_title(f"{kind} {head[0]}.{head[1]}", color=plots.colour(kind))
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel("German key" if kind == "decoder" else "English key")
    ax.set_ylabel("English query" if kind == "encoder" else "German query")
print(german)

# %% [markdown]
# | type | queries from | keys and values from | mask | heads here |
# |---|---|---|---|---|
# | encoder self-attention | source, $n$ rows | source | none | 6 × 8 = 48 |
# | decoder self-attention | target, $t$ rows | target so far | row $i$ reads $j \le i$ | 3 × 8 = 24 |
# | cross-attention | target, $t$ rows | encoder output, $n$ rows | none | 3 × 8 = 24 |
#
# Row $i$ of the decoder has *read* target token $i$ and is about to *write* token $i + 1$. This shift by one will matter.
# We number layers and heads from 0 and write *1.0* for head 0 of layer 1.
#
# ## Which type breaks first?
#
# {cite:t}`michel2019` rank heads by the importance $I_h = \mathrm{E}\,\lvert \partial L/\partial \xi_h \rvert$: how much the
# loss of a text reacts, on average, to a gate $\xi_h$ on the head's output. Take out the least important heads of *one* type,
# nothing is trained again, and look at the loss.
#
# "Most sensitive" has two readings. There are twice as many encoder heads. So half of the encoder's heads are 24, half of
# the cross heads are 12.
#
# :::{div} predict
# **Predict.** Which type loses most when a *quarter* of its heads is gone, and which when *three quarters* are gone? Is it the
# same one?
# :::

# %% mystnb={"figure": {"caption": "Loss on 400 test sentences with a growing number of heads of one type taken out, least important first. Left: by number. Right: by share. Bands: range of three random orders. Cross-attention falls off a cliff after half of its heads; before that, decoder self-attention loses as much or more.", "name": "fig-cross-curves"}, "image": {"alt": "Two panels of three rising lines. Left: up to 12 heads out the decoder line is highest by a little, then the cross line rises steeply from 1.8 to 4.7 at 24; the encoder line reaches 3.1 only at 48. Right: by share the encoder and decoder lines stay below 2.4 up to 90 percent, the cross line leaves them after 60 percent. Random bands lie above the lines, most for cross-attention."}}
curves = pd.DataFrame(stored["curves"])
curves["out"] = curves.groupby("kind")["kept"].transform("max") - curves["kept"]
figure, axes = plots.plt.subplots(1, 2, figsize=(7.2, 3.6), sharey=True)
for kind in KINDS:
    of_kind = curves[curves["kind"] == kind]
    for ax, x in zip(axes, ("out", "fraction"), strict=True):
        ranked = of_kind[of_kind["order"] == "absolute"]
        ax.plot(ranked[x], ranked["nll"], color=plots.colour(kind), label=kind)
        random = of_kind[of_kind["order"] == "random"].groupby(x)["nll"]
        low, high = random.min(), random.max()
        shade = plots.colour(kind)
        ax.fill_between(low.index, low, high, color=shade, alpha=0.2, lw=0)
axes[0].set(xlabel="heads out", ylabel="loss, nats a token")
axes[1].set(xlabel="share of the type's heads out")
axes[0].legend(frameon=False)
ranked = curves[curves["order"] == "absolute"]
loss = ranked.pivot(index="fraction", columns="kind", values="nll")
assert loss["cross"][0.7] > loss[["encoder", "decoder"]].loc[0.7].max() + 0.5
assert loss["cross"][0.3] < loss["decoder"][0.3]
axes[0].set_title("Cross-attention: late, then steep");

# %%
shown = curves[curves["fraction"].isin([0.4, 0.7, 1.0])]
shown = shown[shown["kind"] != "all"]
table = shown.groupby(["kind", "fraction", "order"])[["nll", "bleu"]].mean()
table = table.unstack("order").loc[list(KINDS)]
table.round({each: 2 if each[0] == "nll" else 1 for each in table.columns})

# %% [markdown]
# Not the same one. With a quarter out, decoder self-attention loses a little more than the others, by share and by number. Cross-attention gives
# little away at first, and from 60 % on everything: at 70 % its BLEU is 9, while the others still have 27. Encoder heads are the
# cheapest by number throughout.
#
# *The order matters, and not every score gives one.* The signed score, the mean of $-\partial L/\partial \xi_h$, predicts to first
# order what removal does. It prunes *worse than chance* for decoder and cross heads (at 40 % out, cross: 2.24, random 1.91,
# absolute 1.72). The reason: the model stands near a minimum of this very loss. There the mean slope is nearly 0, what is left is
# noise, and the curvature, which it does not see, decides. The absolute score averages sizes, not signs, and works.
#
# *BLEU and loss are two questions.* With all heads of a type out, the loss says cross, encoder, decoder; so does BLEU (0.3, 7.0,
# 8.7), where the original has 34.9. But the gaps differ: in loss encoder and decoder are half a nat apart, in BLEU 2 points.
#
# :::{div} speaker-notes
# 10 minutes. Let the class draw the three curves before they see them. Likely wrong answer: "cross is the highest everywhere". Ask
# for the number of heads of each type. To save time, cut the table.
# :::
#
# ### The same on three other models
#
# One model is one draw. Three small translators (width 96, BLEU about 16) differ only in their seed. The cell ranks their heads on
# 50 validation pairs and takes heads out on 61 test pairs from all topics; a random order stands beside each.

# %%
pairs = translation_pairs("test")[::23]  # 61, from all topics
few = ed.pair_batches(tokenizer, pairs, size=61)  # one batch
ranking = ed.pair_batches(tokenizer, translation_pairs("validation")[:50])
small = [load(f"translator-small-{seed}").model for seed in (1, 2, 3)]
models = [model, *small]
ranked_heads = pd.DataFrame(stored["importance"])
frames = [importance(each, ranking, ed.text_losses) for each in small]
names = []  # (kind, heads out)
for kind in KINDS:
    counts = (6, 12, 18, 36 if kind == "encoder" else 24)
    names += [(kind, name) for name in (*counts, "12, random")]
found = []
both = zip(models, [ranked_heads, *frames], strict=True)
for seed, (each, frame) in enumerate(both):
    out = []
    for kind, count in names:
        order = order_by(frame, "absolute", kind=kind)
        chance = random_order(each, seed, kind=kind)[:12]
        out.append(chance if count == "12, random" else order[:count])
    found.append(ed.extra_losses(each, few, out))
cost = dict(zip(names, zip(*found, strict=True), strict=True))

# %% tags=["claim"]
for place in range(4):  # in each model …
    by = {key: each[place] for key, each in cost.items()}
    for out in (6, 12, 18):  # … encoder heads are the cheapest, by number
        assert by["encoder", out] < min(by["decoder", out], by["cross", out])
    assert by["cross", 18] > by["decoder", 18] + 0.1  # at three quarters …
    assert by["cross", 18] > 2 * by["encoder", 36]  # … cross-attention leads
    assert by["cross", 24] > 2 * by["decoder", 24]
    assert by["cross", 12] < by["cross", "12, random"]  # ranking helps
text = {
    key: f"{one:.2f} · {min(more):.2f} to {max(more):.2f}"
    for key, (one, *more) in cost.items()
}
table = pd.Series(text).unstack(0)[list(KINDS)].fillna("")
table.rename_axis(index="heads out", columns="translator · small ones")

# %% [markdown]
# At three quarters (18 of 24; 36 of 48) cross-attention loses most in all four, in the end more than twice as much as the decoder. Encoder
# heads are the cheapest, by number, at every step. At a quarter it depends: in the translator decoder and cross heads cost about the same (0.08
# and 0.07), in the small models cross heads a little more. At half, cross-attention is ahead on these sentences, and level with the decoder on
# the 400 of the figure: sentences matter, too.
#
# So "cross-attention breaks first" needs its dose: it breaks *hardest*, once more than half of it is gone. And "more than 60 % cannot be
# removed", as the note has it, turns a place on one curve into a law. What can be said is where this model's curve bends.
#
# ## One head left
#
# The other experiment of {cite:t}`michel2019` is blunt: in *one* layer take out all heads but the best. Their table 2 is
# for a large model (6 layers × 16 heads each type, 36.05 BLEU; read from a transcript, UNCONFIRMED). Ours has 12 layers. The best
# head is chosen by loss on validation pairs, BLEU is measured on 400 test sentences.
#
# | their change of BLEU, layer | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | encoder | −1.31* | −0.16 | +0.12 | −0.15 | +0.02 | −0.36* |
# | decoder | −0.04 to +0.24, none significant | | | | | |
# | cross | +0.24* | +0.06 | +0.05 | −0.24 | −1.55* | −13.56* |
#
# (\* p < 0.01. UNCONFIRMED.)
#
# :::{div} predict
# **Predict.** Seven of eight heads of one encoder layer are gone: how many of the 34.9 BLEU points go with them? And in the last cross
# layer?
# :::

# %%
left = pd.DataFrame(stored["one head left"])
left["change"] = left["bleu"] - stored["full"]["bleu"]
ours = left.pivot(index="kind", columns="layer", values="change")
ours = ours.loc[list(KINDS)].round(1)
places = list(left[["kind", "layer"]].itertuples(index=False, name=None))
best = [dict(zip(places, left["head"], strict=True))]
for frame in frames:
    top = frame.sort_values("absolute").groupby(["kind", "layer"]).last()
    best.append(top["head"].to_dict())
every = {
    place: [h for h in heads_of(model) if (h.kind, h.layer) == place]
    for place in places
}
one_left = []
for each, of_place in zip(models, best, strict=True):
    out = [
        [head for head in every[place] if head.head != of_place[place]]
        for place in places
    ]
    one_left.append(ed.extra_losses(each, few, out))
ours.astype(object).fillna("").rename_axis(columns="change of BLEU, layer")

# %% mystnb={"figure": {"caption": "Extra loss when one layer keeps a single head. Large dots: the translator, the best head. Small dots: three small models, the head of highest importance. In each of the four the last cross layer costs most.", "name": "fig-cross-one-left"}, "image": {"alt": "Dots over twelve layers in three groups. Encoder layers lie below 0.11, decoder layers between 0.04 and 0.17, the first two cross layers between 0.1 and 0.24, the last cross layer between 0.29 and 0.45, highest in each model."}} tags=["claim"]
# In all four models the last cross layer costs most, encoder layers least.
for each in one_left:
    assert places[max(range(12), key=each.__getitem__)] == ("cross", 2)
    assert sum(each[:6]) / 6 < sum(each[6:]) / 6 / 2
ax = plots.plt.subplots(figsize=(6.8, 3.2))[1]
shades = [plots.colour(kind) for kind, _ in places]
for each, size in zip(one_left, (60, 14, 14, 14), strict=True):
    ax.scatter(range(12), each, color=shades, s=size, alpha=0.7)
ax.set_xticks(range(12), [f"{kind[:3]} {layer}" for kind, layer in places])
ax.set(ylabel="extra loss, nats a token")
ax.set_title("One head is enough in the encoder, not in cross-attention");

# %% [markdown]
# The shape of the paper's table is there, in small: the last cross layer stands out (−11.5 points), encoder layers lose 0.6 to
# 1.9. In loss, all four models agree on it: of twelve layers the last cross layer can least live on one head. But a small model has
# less to spare: here *every* cross layer loses BLEU, while four of the paper's six do not. And decoder layers, harmless in the paper, cost
# more than encoder layers.
#
# ## Is cross-attention alignment?
#
# The note says that cross-attention aligns source and target. To check it you need a reference that is *not* attention. Two are
# at hand:
#
# - words that stand *unchanged* in both sentences, such as names and numbers;
# - IBM Model 1, a word model of 1993: from 5,000 sentence pairs it learns $p(\text{target word} \mid \text{source word})$ by EM and
#   knows nothing of places, networks or attention {cite}`brown1993`. We train it in both directions and keep the *links* on which both agree.
#
# For each link and each head, take the source piece with the greatest weight (the end token aside). It *hits* if it belongs to the
# linked word. And now the shift. A target word has two rows: the one that is about to **write** its first piece, and the one that
# has just **read** it, one step later.
#
# Nulls: the *diagonal* (the piece at the same share of its sentence), *exchanged* (the same rows, links of the sentence dealt out
# anew), and the translator with fresh weights.
#
# :::{div} predict
# **Predict.** Which layer has the best aligned head, the first or the last? And does it point to the word it is about to write, or to
# the one it has just read?
# :::

# %%
SHIFTS = {"about to write": 0, "just read": 1}
references = {
    "unchanged": alignment.unchanged,
    "IBM Model 1": alignment.word_links(translation_pairs("train")[:5000]),
}
chosen_on = translation_pairs("validation")[:120]
links = {
    name: alignment.linked(tokenizer, chosen_on, find)
    for name, find in references.items()
}
model_1, by_1 = references["IBM Model 1"], links["IBM Model 1"]
example = alignment.linked(tokenizer, [(english, german)], model_1)[0]
batches = ed.pair_batches(tokenizer, chosen_on)
found, of_fresh, *of_small = (
    alignment.readings(each, batches)
    for each in (model, without_training(model), *small)
)
print(", ".join(f"{link.source} = {link.target}" for link in example))
print({name: sum(map(len, each)) for name, each in links.items()}, "links")

# %% mystnb={"figure": {"caption": "Share of the links that each of the 24 cross heads hits, by layer. Left: in the row that is about to write the word. Right: in the row that has just read it. One head of layer 0 looks back at what is written; layers 1 and 2 look at what comes. Grey: nulls.", "name": "fig-cross-alignment"}, "image": {"alt": "Two panels of dots for layers 0, 1, 2 and three grey rows. Left: layer 0 near 0.25 with one head at 0.5, layers 1 and 2 between 0.45 and 0.62, diagonal 0.28, exchanged and untrained below 0.12. Right: layer 0 between 0.1 and 0.36 and one head at 0.82, layers 1 and 2 below 0.25."}} tags=["claim"]
rates = {
    name: alignment.hit_rate(found, by_1, shift)
    for name, shift in SHIFTS.items()
}
nulls = alignment.null_rates(found, by_1)
nulls["untrained"] = alignment.hit_rate(of_fresh, by_1)
writing, reading = rates.values()
assert writing[1:].median() > 0.5 > 0.4 > writing[0].median()
assert reading.argmax() < 8 and reading.max() > 0.65  # a head of layer 0
assert reading[1:].max() < 0.35
assert writing.max() > nulls["diagonal"].max() + 0.2
assert max(nulls["exchanged"].max(), nulls["untrained"].max()) < 0.2
figure, axes = plots.plt.subplots(1, 2, figsize=(7.2, 3.4), sharey=True)
for ax, (name, rate) in zip(axes, rates.items(), strict=True):
    groups = {f"layer {layer}": rate[layer] for layer in range(3)}
    plots.strips(groups | nulls, x=f"hits, {name}", null=list(nulls), ax=ax)
    ax.set_xlim(0, 1)
axes[0].set_title("Layers 1 and 2 look at the word to come");

# %%
def cells(found, links):
    rates = [alignment.hit_rate(found, links, s) for s in SHIFTS.values()]
    each = zip(SHIFTS, rates, strict=True)
    return {
        (shift, f"layer {layer}"): f"{rate[layer].max():.2f} "
        f"({rate[layer].mean():.2f})"
        for shift, rate in each
        for layer in range(3)
    }


rows = {f"translator, {name}": cells(found, x) for name, x in links.items()}
for seed, each in enumerate(of_small, start=1):
    rows[f"small {seed}, IBM Model 1"] = cells(each, by_1)
pd.DataFrame(rows).T

# %% [markdown]
# (Best head of a layer, and in brackets the mean of its eight.)
#
# Alignment is there, far above diagonal and nulls, and both references agree on it. Three things qualify it.
#
# *The best aligned head looks back.* Head 0.1 hits 82 % of the links in the row that has *just read* the word. It attends to the source
# word of what has been written: a mark that this part is done. Read its map without the shift and it looks like the translator's choice of
# the next word. It is not.
#
# *What is about to be written* is looked at in layers 1 and 2, by nearly every head a little more often than not. No head does it
# reliably.
#
# *Looking back is not a law.* In the small models no head of layer 0 does it. The look ahead, in layers 1 and 2, is
# in all of them, 0.5 to 0.6 at best.
#
# Choose a head below and read it from either side. *About to write* and *just read* shift the rows by one. A ring marks the links of IBM
# Model 1.

# %% tags=["hide-input"]
cross_explorer(
    maps["cross"],
    example,
    layer=1,
    head=0,
    word="ändern",
    title="“ändern” looks at “change” before it is written",
    alt="English and German words with lines of cross-attention of one head of 24, and the heat map of that head.",
)

# %% [markdown]
# ### Take the pointer away
#
# If a head's pointing *is* the choice of the word, then without the head the word should become improbable. We measure the loss of
# the first piece of each linked word, given the reference before it:
#
# - without the best looking-back head, without the best looking-ahead head, without a whole layer, without all cross heads;
# - with every head, but cross-attention may not read the *linked source word* (the encoder reads it as ever); and, as null, may not
#   read *another* linked word of the sentence.
#
# :::{div} predict
# **Predict.** The best looking-ahead head points to the right word in three of five cases. Without it, does the word lose much (more than 1
# nat), some (about 0.3) or nothing (below 0.05)?
# :::

# %%
judged = alignment.linked(tokenizer, pairs, model_1)
rows_of = [[link.row for link in each] for each in judged]


def without(heads):
    """Losses of the linked words' first pieces, by text."""
    with ablated(model, heads) if heads else nullcontext():
        losses = ed.token_losses(model, few).losses
    return [each[rows] for each, rows in zip(losses, rows_of, strict=True)]


def hiding(links):
    """The same while cross-attention may not read a word's link."""
    pieces = [[link.pieces for link in each] for each in links]
    return ed.losses_hiding(model, tokenizer, pairs, rows_of, pieces)

# %%
cross = [head for head in heads_of(model) if head.kind == "cross"]
ahead, behind = (divmod(int(r.argmax()), 8) for r in (writing, reading))
removed = {
    f"head {ahead[0]}.{ahead[1]}, looks ahead": [Head(*ahead, "cross")],
    f"head {behind[0]}.{behind[1]}, looks back": [Head(*behind, "cross")],
}
for layer in range(3):
    removed[f"all of layer {layer}"] = [h for h in cross if h.layer == layer]
removed["all cross heads"] = cross
whole = without([])
lost = {name: without(heads) for name, heads in removed.items()}
lost["hidden: linked word"] = hiding(judged)
swapped = [alignment.exchanged(each) for each in judged]
lost["hidden: another word"] = hiding(swapped)

# %% mystnb={"figure": {"caption": "Extra loss of a linked word. One head, however well aligned, is worth next to nothing. The linked source word, hidden from all of them, is worth nearly as much as all cross-attention. Dots: mean; lines: 95 percent of bootstrap samples of sentences.", "name": "fig-cross-pointer"}, "image": {"alt": "Eight rows of dots with error bars. The two single heads and another hidden word lie near 0, whole layers between 0.4 and 0.8, the hidden linked word at 4.0 and all cross heads at 4.2."}} tags=["claim"]
effects = {}
for name, each in lost.items():
    change = [x - y for x, y in zip(each, whole, strict=True)]
    effects[name] = ed.interval(change)
values = [mean for mean, _, _ in effects.values()]
one_ahead, look_back, *layers, all_cross, own_word, another = values
assert abs(one_ahead) < 0.1 and look_back < 0.3 and abs(another) < 0.1
assert max(layers) < 0.4 * own_word and own_word > 0.7 * all_cross > 2
ax = plots.plt.subplots(figsize=(6.8, 3.4))[1]
for place, (name, (mean, low, high)) in enumerate(effects.items()):
    null = name.endswith("another word")
    shade = plots.colour("null" if null else "cross")
    ax.plot([low, high], [place, place], color=shade, lw=2)
    ax.plot(mean, place, "o", color=shade)
ax.set_yticks(range(len(effects)), list(effects))
ax.invert_yaxis()
ax.set(xlabel="extra loss of a linked word, nats")
ax.set_title("The word counts, no single pointer does");

# %% [markdown]
# Nothing (mean within 0.05). Other heads do the same work, so the aligned head can go. Whole layers cost 0.4 to 0.8. But hide the
# *word* from all heads, and nearly everything is lost that cross-attention gives; hide another word, and on average nothing.
#
# So **alignment is a property of cross-attention as a whole**, and a real one: the content of the source word is fetched from its own
# place, although the encoder could have spread it. **It is not a property of one head**, and the place where a single map is darkest
# does not say what would happen without it.
#
# :::{div} speaker-notes
# 12 minutes for alignment. Expect "the last layer aligns best, so cut the others". Ask what row *i* has seen. To save time, skip the
# table of seeds.
# :::
#
# ## What decoder heads do
#
# The note says that decoder self-attention "enforces the order of generation (it does the masking)". First, where do its heads look?
#
# :::{div} predict
# **Predict.** Change a target word. By how much do the outputs *before* it change (a) with all heads, (b) without any decoder head, (c) with
# all heads and the mask taken away, (d) with neither?
# :::

# %%
ours_out = [head for head in heads_of(model) if head.kind == "decoder"]
changes = {}
for name, heads in {"all heads": [], "no decoder head": ours_out}.items():
    for causal in (True, False):
        with ablated(model, heads) if heads else nullcontext():
            found_change = ed.future_effect(model, few[0], 5, causal=causal)
        changes[name, "mask" if causal else "no mask"] = found_change
assert changes["all heads", "mask"] == 0 < changes["all heads", "no mask"]
assert changes["no decoder head", "mask"] == 0
assert changes["no decoder head", "no mask"] == 0
statistics = head_statistics(
    model, tokenizer, *map(list, zip(*pairs, strict=True))
)
looks = statistics[statistics["kind"] == "decoder"].groupby("layer")[
    ["self_share", "offset_-1", "offset_-2", "sink_share"]
]
names = ["on itself", "one before", "two before", "on the start token"]
display(pd.Series(changes).unstack().round(0))
looks.max().set_axis(names, axis=1).round(1)

# %% [markdown]
# Exactly 0 with the mask, with or without heads. Without the mask it is the heads that *let the future in*, and without heads there is
# nothing to mask. The mask is a fixed pattern of −∞ in the scores. Heads do not enforce it; they are what it holds back. The order of
# generation comes from the loop that feeds tokens one by one, and from the positions added to the embeddings.
#
# What do decoder heads do, then? Take all 24 out: row $i$ still knows its token, its place and the whole source, and nothing else that was
# written. Compare with all cross heads out, by kind of token.
#
# :::{div} predict
# **Predict.** Which tokens lean most on the target's own past, compared with the source: function words (*der, die, auf*), first pieces of other
# words, later pieces of words, or punctuation?
# :::

# %%
kinds_of = target_tokens.token_classes(tokenizer, few[0]["labels"])
start = ed.token_losses(model, few)
silent = {"no decoder head": ours_out, "no cross head": cross}
silent |= {
    f"layer {layer}, {kind}": [h for h in heads if h.layer == layer]
    for kind, heads in (("decoder", ours_out), ("cross", cross))
    for layer in range(3)
}
increase = {}
for name, heads in silent.items():
    with ablated(model, heads):
        change = ed.token_losses(model, few).losses - start.losses
    increase[name] = [
        x[real] for x, real in zip(change, start.real, strict=True)
    ]


def by_class(parts, name):
    """(mean, low, high) over tokens of one class."""
    return ed.interval(
        [
            part[[each == name for each in names]]
            for part, names in zip(parts, kinds_of, strict=True)
        ]
    )

# %% mystnb={"figure": {"caption": "Extra loss by kind of token. Function words and punctuation lean on the target's past nearly as much as on the source, other words much more on the source. Lines: 95 percent of bootstrap samples of sentences.", "name": "fig-cross-classes"}, "image": {"alt": "Two panels of horizontal dots with error bars for four kinds of token. Left, no decoder head: mark 1.6, first piece 1.3, function word 1.2, later piece 0.8. Right, no cross head: first piece 5.1, later piece 2.8, mark 2.6, function word 2.1."}} tags=["claim"]
tokens = list(target_tokens.CLASSES[:4])
parts = {
    name: {kind: by_class(increase[name], kind) for kind in tokens}
    for name in ("no decoder head", "no cross head")
}
ratio = {
    kind: parts["no decoder head"][kind][0] / parts["no cross head"][kind][0]
    for kind in tokens
}
function, first, second, mark = tokens
assert min(ratio[function], ratio[mark]) > max(ratio[first], ratio[second])
figure, axes = plots.plt.subplots(1, 2, figsize=(7.2, 2.8), sharey=True)
pictured = zip(axes, parts.items(), ("decoder", "cross"), strict=True)
for ax, (name, part), kind in pictured:
    for row, (mean, low, high) in enumerate(part.values()):
        ax.plot([low, high], [row, row], color=plots.colour(kind), lw=2)
        ax.plot(mean, row, "o", color=plots.colour(kind))
    ax.set(yticks=range(4), xlim=(0, None), xlabel=f"extra loss, {name}")
axes[0].set_yticklabels(tokens)
axes[0].invert_yaxis()
axes[0].set_title("Small words and marks lean on the target's past")
print("decoder over cross:", {k: round(x, 1) for k, x in ratio.items()})
for name in list(increase)[2:]:
    print(f"{name}: +{ed.interval(increase[name])[0]:.1f}")

# %% [markdown]
# Compare the two panels by their ratio (printed). For punctuation and function words the target's own past is worth more than half of what the
# source is worth; for the pieces of other words about a third. So decoder heads work as a language model of the target, which knows best where
# a comma or an article goes, and the source says which word. {cite:t}`voita2019` describe decoder layers this way (section
# 6.3): lower ones as a language model, upper ones reading the source. Here the layers do not divide so neatly (printed too): the decoder heads of
# every layer cost 0.1 to 0.2, the cross heads of every layer more, 0.3 to 0.5.
#
# ## Share keys and values instead
#
# A decoder that generates keeps the keys and values of all heads: the **KV cache**. Removing heads shrinks it. So does *sharing*: all
# query heads stay, and groups of them use one key and one value head. **GQA** has a few groups, **MQA** one
# {cite}`ainslie2023`. **MLA** keeps one short vector per token, from which every head makes keys and values of its own
# {cite}`deepseek2024`. Sizes are
# arithmetic: the first cell has them for a decoder of 32 layers and width 4096.
#
# If key and value heads were redundant, the mean of two would do for both. Try it: in each layer of one type, each group of heads gets
# the mean of its keys and values, and nothing is trained. That is GQA's own starting point. Beside it, groups of random heads instead of
# neighbours, and the price of *removing* as many heads.
#
# :::{div} predict
# **Predict.** Cross-attention with half the keys and values: does sharing by pairs cost less than removing 12 of 24 heads, as much, or more?
# :::


# %%
sizes = dict(layers=32, width=4096, vocabulary=32_000, positions=4096)
shape = planner.Architecture(heads=32, kind="decoder", **sizes)
cache_of = {
    name: planner.kv_cache(shape.with_heads(32, kv_heads), 4096) / 1e9
    for name, kv_heads in {"MHA": 32, "GQA, 8": 8, "MQA": 1}.items()
}
assert abs(cache_of["MHA"] / cache_of["MQA"] - 32) < 1e-6
text = ", ".join(f"{name}: {gb:.2f} GB" for name, gb in cache_of.items())
print(f"{text} for 4096 tokens in half precision")

# %%
def cost_of_sharing(kind, groups, seed=None):
    generator = torch.Generator().manual_seed(seed or 0)
    order = None if seed is None else torch.randperm(8, generator=generator)
    changed = ed.with_shared_heads(model, kind, groups, order=order)
    return ed.token_losses(changed, few).mean - start.mean


price = {}
for kind in KINDS:
    order = order_by(ranked_heads, "absolute", kind=kind)
    price[kind] = {
        "4 groups": cost_of_sharing(kind, 4),
        "4 groups, random": cost_of_sharing(kind, 4, seed=1),
        "1 group": cost_of_sharing(kind, 1),
    }
    out = [order[: len(order) // 2], order]
    half, whole_type = ed.extra_losses(model, few, out)
    price[kind] |= {"half the heads out": half, "all heads out": whole_type}

# %% tags=["claim"]
price = pd.DataFrame(price).T
# Untrained sharing costs more than removing as many heads …
assert (price["4 groups"] > price["half the heads out"])[
    ["decoder", "cross"]
].all()
assert (
    price.loc["cross", "4 groups"]
    > 2 * price.loc["cross", "half the heads out"]
)
# … neighbours are no better company than random heads.
assert (price["4 groups"] / price["4 groups, random"] - 1).abs().max() < 0.4
display(price.round(1))
tuned = pd.DataFrame(sweep("shared_heads")["rows"])
tuned = tuned.pivot(index="left", columns="way", values=["nll", "nll tuned"])
tuned.sort_index(ascending=False).round(2)

# %% [markdown]
# More, for decoder and cross heads. In cross-attention the mean of two heads is a key that neither query understands: sharing costs
# several times as much as removing half of all heads, and random pairs are no worse than neighbours. Key and value heads are **not
# simply redundant**.
#
# The second table is a cached experiment: decoder and cross heads together, all weights tuned for 150 steps (1 % of the translator's
# training), sharing kept all the way; `left` is the number of key/value heads of 8 (for *remove*, on average). Sharing by pairs comes down from 2.96 to 1.96; removing half of the
# heads, from 1.90 to 1.75; the control, with all 8, is at 1.59. So here, after so little tuning, removing still leads at equal size. That says
# nothing against GQA, which is trained for longer and at another scale; it says that sharing is bought with training, not free.
#
# ## Where this breaks
#
# :::{div} breaks
# "This head costs nothing" is a statement about a model that still has all the others. Take each of the twelve most important cross heads out
# alone: from the full model, and from one whose twelve least important cross heads are already gone. If effects added up, both would be the
# same.
# :::

# %% mystnb={"figure": {"caption": "What each of the twelve most important cross heads costs when it is the only one out (grey) and when the other twelve are already gone. Effects do not add up: the stand-ins are used up.", "name": "fig-cross-breaks"}, "image": {"alt": "Twelve pairs of dots joined by lines. The grey dots lie between 0 and 0.08, the coloured ones between 0.06 and 0.21, higher in eleven pairs of twelve."}} tags=["claim"]
order = order_by(ranked_heads, "absolute", kind="cross")
gone, kept = order[:12], order[12:]
out = [[head] for head in kept] + [gone] + [[*gone, head] for head in kept]
losses = torch.tensor(ed.extra_losses(model, few, out))
alone, after = losses[:12], losses[13:] - losses[12]
all_out = float(price.loc["cross", "all heads out"])
single = pd.DataFrame(stored["one head out"]).groupby("kind")["nll"].sum()
assert after.mean() > 3 * alone.mean() and (after > alone).sum() >= 10
assert single["cross"] < 0.2 * all_out
print(
    f"sum of 24 single effects {single['cross']:.2f}, all at once {all_out:.1f}"
)
ax = plots.plt.subplots(figsize=(6.8, 2.9))[1]
ax.vlines(range(12), alone, after, color=plots.colour("null"), lw=1)
ax.plot(range(12), alone, "o", color=plots.colour("null"))
ax.plot(range(12), after, "o", color=plots.colour("cross"))
ax.set_xticks(range(12), [f"{head.layer}.{head.head}" for head in kept])
ax.set(xlabel="cross head", ylabel="extra loss, nats a token")
ax.set_title("A head is dispensable only while others are there");

# %% [markdown]
# So a list of heads that are each harmless to remove is no list of heads that can all go. The same holds for the claim of this chapter:
# *which type* is tender depends on how much is already gone.
#
# ## Since 2021
#
# - **Sharing instead of removing.** {cite:t}`ainslie2023` report for T5-XXL a mean quality of 47.1 with 8 groups against 47.2 with all key/value
#   heads, at 0.28 against 1.51 s a sample, after 5 % more training (abstract or transcript).
# - **Not for free.** {cite:t}`deepseek2024` report for a 7B ablation MMLU 45.2 with all heads, 41.2 with groups, 37.9 with one. Their latent
#   attention beats full heads in another ablation; the whole model needs 93.3 % less KV cache than DeepSeek 67B (abstract or
#   transcript). That is the direction of our small experiment: keys and values carry something of their own.
# - **What pruning buys.** {cite:t}`michel2019` measured BERT without half of its heads on a GTX 1080 Ti: 1.9 % faster at batch
#   size 1, 17.5 % at 64 (table 4, section 4.3, transcript, UNCONFIRMED). Chapter 10 has more on speed.
#
# ## Exercises
#
# ::::{div} exercise
# **Exercise 4.1** · difficulty 3/5 · about 10 minutes · needs "Is cross-attention alignment?"
#
# `weights` is the cross map of one head: a row for each token the decoder has *read*, the first of them the start token; a column for each
# source piece, the last of them the end token. Row 0 writes target token 0, and so on; the last row writes the target's end. Return for each
# token that is **written** the source piece, a real one, with most weight in its row.
#
# :::{dropdown} Hint
# No shift is needed: row 0 has read the start token and is about to write token 0.
# :::
# :::{dropdown} Second hint
# The end of the source is no word: leave its column out before you take the greatest.
# :::
# ::::


# %%
def source_of_each(weights):
    """weights: (rows, source pieces). Returns whole numbers (rows,)."""
    ### BEGIN SOLUTION
    return weights[:, :-1].argmax(dim=1)
    ### END SOLUTION


def points_ahead(attempt):
    tiny = [[1, 6, 2, 1], [3, 1, 2, 4], [2, 1, 5, 2], [1, 5, 1, 3]]
    tiny = torch.tensor(tiny) / 10
    result = torch.as_tensor(attempt(tiny)).long().flatten().tolist()
    hints = {
        (0, 2, 1): "token 0 is missing: row 0 is about to write it",
        (3, 2, 1): "token 0 is missing, and column 3 is the source's end",
        (1, 3, 2, 1): "column 3 is the end of the source, no word",
        (1, 0, 2): "a source piece for each of the 4 rows, not for each column",
    }
    hint = hints.get(tuple(result), "one source piece for each row?")
    assert result == [1, 0, 2, 1], f"got {result}: {hint}"
    head = maps["cross"].head(1, 0)
    wanted = head[:, :-1].argmax(1)
    assert torch.equal(torch.as_tensor(attempt(head)), wanted), "a real map"


check("4.1", source_of_each, points_ahead)

# %% [markdown]
# ::::{div} exercise
# **Exercise 4.2** · difficulty 3/5 · about 10 minutes · needs "Share keys and values instead"
#
# Write the start of GQA. `weight` is a key projection of `heads` heads, $(\text{heads} \cdot d_h) \times d$, head after head. Return the projection of
# `groups` key heads: the mean over neighbours, $(\text{groups} \cdot d_h) \times d$.
#
# :::{dropdown} Hint
# `unflatten(0, (heads, -1))` has one block for each head.
# :::
# :::{dropdown} Second hint
# A second `unflatten` makes groups of heads; the mean goes over the heads *within* a group.
# :::
# ::::


# %%
def grouped(weight, heads, groups):
    """weight: (heads * d_head, width). Returns (groups * d_head, width)."""
    ### BEGIN SOLUTION
    blocks = weight.unflatten(0, (heads, -1)).unflatten(0, (groups, -1))
    return blocks.mean(dim=1).flatten(0, 1)
    ### END SOLUTION


def shares_keys(attempt):
    weight = torch.arange(8.0)[:, None] * torch.ones(8, 3)  # 4 heads of 2
    result = attempt(weight, 4, 2)
    assert result.shape == (4, 3), "2 groups of width 2 are 4 rows, each once"
    hints = {
        2.0: "heads 0 and 2 were joined (or a sum): neighbours are 0 and 1",
        0.5: "rows within a head were averaged, not heads",
        0.0: "the first head of each group, not their mean",
    }
    column = result[:, 0].tolist()
    hint = hints.get(column[0], f"got {column}")
    assert column == [1.0, 2.0, 5.0, 6.0], hint
    one = attempt(weight[:4], 2, 1)[:, 0].tolist()
    assert one == [1.0, 2.0], f"2 heads, 1 group: rows of 1 and 2, not {one}"


check("4.2", grouped, shares_keys)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "In the row that has just read “ändern”, a cross head has its darkest cell at “change”. What do you know?",
    [
        (
            "The head chose “ändern” because of “change”.",
            False,
            "The row comes after the choice: it is about to write the next token.",
        ),
        (
            "Without this head “ändern” would not be written.",
            False,
            "Weights do not say that; an ablation does.",
        ),
        (
            "The head looks back at the source of a word that is already there.",
            True,
            "Which use that has, the map does not say.",
        ),
        (
            "The encoder has stored “change” nowhere else.",
            False,
            "One map says nothing about other places.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "All decoder self-attention heads are set to zero. What can a row of the decoder now see?",
    [
        (
            "The whole target, since no head applies the mask.",
            False,
            "Without heads nothing moves between target rows.",
        ),
        (
            "Its own token, its place, and the source.",
            True,
            "Cross-attention and embeddings are left, and no way back along the target.",
        ),
        (
            "The target so far, as the mask allows.",
            False,
            "The mask allows; heads would have to carry.",
        ),
        (
            "Only the source, not its own token.",
            False,
            "The residual stream keeps the row's own token.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "Twelve heads are each harmless to remove. Someone removes all twelve and the loss jumps. The likeliest reason?",
    [
        (
            "Each was tested while the others could stand in for it.",
            True,
            "Single effects do not add up.",
        ),
        (
            "The loss was measured with too few sentences.",
            False,
            "That would add noise, not a jump in one direction.",
        ),
        (
            "Zeroing a head breaks the softmax of its layer.",
            False,
            "Each head has a softmax of its own.",
        ),
        (
            "The heads belonged to the encoder.",
            False,
            "By number those are the cheapest.",
        ),
    ],
)

# %% [markdown]
# ## Verdicts
#
# What this notebook measured, claim by claim. The second claim holds as a direction only; its "60 %" is the bend of one curve.

# %%
at = loss - stored["full"]["nll"]
first = {
    "24 of 48 encoder heads out, extra loss": round(at["encoder"][0.5], 1),
    "one head left in a layer, worst BLEU": round(min(ours.loc["encoder"]), 1),
}
second = {
    "12 of 24 cross heads out, extra loss": round(at["cross"][0.5], 1),
    "17 of 24 out": round(at["cross"][0.7], 1),
    "one head left in the last layer, BLEU": round(ours.loc["cross"][2], 1),
}
third = {
    "what a later token changes, no decoder head": 0,
    "a word without its best aligned head": round(abs(one_ahead), 1),
    "… with its source word hidden": round(own_word, 0),
}
fourth = {
    "18 cross heads out, small models": round(min(cost["cross", 18][1:]), 1),
    "18 encoder heads out": round(max(cost["encoder", 18][1:]), 1),
}
verdicts = {"C4.1": "holds", "C4.2": "holds with conditions"}
verdicts |= {"C4.3": "does not hold", "C4.4": "holds with conditions"}
each = zip(verdicts.items(), (first, second, third, fourth), strict=True)
display(*(claims.record(id_, x, verdict) for (id_, verdict), x in each))

# %% [markdown]
# ## Takeaways
#
# 1. Compare types at equal number *and* equal share. Cross-attention breaks hardest, late; below half, decoder heads are as dear. Rank by
#    absolute importance, and measure all removals together.
# 2. Cross-attention fetches the source word from its place. That is true of all heads together. One head's map may look back, and one head can go.
# 3. The mask is no head's work. Decoder heads are a language model of the target. Keys and values can be shared, after training.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
