# %% [markdown]
# # Attention routes content
#
# **The insight.** Attention moves content along a weighted directed graph, from keys to queries. What a token is stays
# in the residual stream; one head carries a thin, chosen part of it. Heads look at different places. They do share
# directions of the residual stream, for values nearly as much as for queries and keys; at equal storage, sharing pays for
# queries and keys only.

# %% tags=["hide-input"]
import pandas as pd
import torch
from IPython.display import display

from utils import (
    claims,
    figures,
    measures,
    plots,
    probes,
    routing,
    routing_exercises,
    subspaces,
)
from utils.architectures import attentions
from utils.attention import attention_maps
from utils.corpora import passages
from utils.exercises import check
from utils.heads import ablated, heads_of
from utils.models import load, untrained
from utils.sweeps import sweep_table

plots.use_style()
display(claims.card(2), claims.card("3b"))

# %% [markdown]
# ## Objectives
#
# You know what a query, a key and a value are, and which way content moves
# ([chapter 1](01-asymmetry.ipynb)). With this notebook in front of you, you will be able to
#
# - **write** the output of a layer as a sum of messages between tokens, and check it on a real model;
# - **name** three assumptions of attention rollout, and **test** whether it predicts a measured effect;
# - **measure** with a linear probe what a head carries, against a projection of the same width and random weights;
# - **tell** a large attention weight from a large contribution;
# - **decide** from a null model whether heads share directions.
#
# Reading takes about 35 minutes, running about half a minute. Two sweeps, measurements too long for a notebook, are
# cached (all probes; all numbers of shared directions); a part of each is run again here and must agree.

# %% [markdown]
# ## Three heads, three graphs
#
# Every head draws its own graph over the same words. An arrow goes from the key that is read to the query that reads
# it: that is the way content moves. The model of this chapter is MiniLM (all-MiniLM-L6-v2), a bidirectional encoder for
# sentence embeddings: 6 layers of 12 heads, width 384, so that a head has 32 numbers a token. Beside it stands the same
# model with random weights, called *untrained*.

# %% mystnb={"figure": {"caption": "Three heads of MiniLM read the same sentence. One passes each token on to the next, one mostly to the one before, and one reads [CLS] everywhere. Arrows show flow, key to query; weights below 0.15 are left out.", "name": "fig-routing-graphs"}, "image": {"alt": "Three rows of the tokens CLS, the, key, opens, the, door, SEP with curved arrows. In the first each arrow leads one token to the right, in the second short arrows lead one to the left and some start at CLS, in the third all arrows start at CLS."}} tags=["claim"]
model, tokenizer = load("minilm")
null_model = untrained(model, seed=0)
sentence = "The key opens the door"
maps = attention_maps(model, tokenizer, sentence)["encoder"]
shown = {(0, 2): "from the token before", (1, 8): "from the token after"}
shown[1, 10] = "from [CLS], whatever the token"
previous, following, sink = (maps.head(*head) for head in shown)
assert previous.diagonal(-1).mean() > 0.9 and following.diagonal(1).mean() > 0.5
assert sink[1:-1, 0].mean() > 0.5
figure, axes = plots.plt.subplots(3, 1, figsize=(6.5, 6.2))
for ax, (head, text) in zip(axes, shown.items(), strict=True):
    title = f"Layer {head[0]}, head {head[1]}: {text}"
    plots.flow(maps.head(*head), maps.queries, title=title, low=True, ax=ax)

# %% [markdown]
# ## A layer is a sum of messages
#
# Take the rows $x_j$ that a layer's attention reads. Head $h$ weighs them with $P^h$, projects them, and all heads are
# added up:
#
# $$a_i = b + \sum_h \sum_j m^h_{j \to i}, \qquad m^h_{j \to i} = P^h_{ij}\,(x_j W_V^h + b_V^h)\,W_O^h$$
#
# | symbol | in code | shape |
# |---|---|---|
# | $x_j$ | `hidden` | width |
# | $P^h$ | `weights` | tokens × tokens, row = query |
# | $W_V^h$, $b_V^h$ | in `values` | width × d_head, and d_head |
# | $x_j W_V^h + b_V^h$ | `values` | d_head: what token $j$ offers |
# | $z_i^h = \sum_j P^h_{ij} (x_j W_V^h + b_V^h)$ | `outputs` | d_head: what the head has collected for token $i$ |
# | $W_O^h$ | `output_blocks()` | d_head × width |
# | $m^h_{j \to i}$ | `messages` | width: what moves from $j$ to $i$ |
# | $b$ | `output.bias` | width |
# | $a_i$ | `added` | width: what the attention adds to row $i$ |
#
# This is the graph: nodes are tokens, and each edge $j \to i$ has a weight *and a content*. The residual stream keeps
# $x_i$ and adds $a_i$. Nothing else moves between positions: norms and feed-forward blocks work on one row at a time.
# The sum is exact, in every layer; the cell takes layer 3.

# %%
batch = tokenizer(sentence, return_tensors="pt")
state = routing.layer_states(model, dict(batch))[3]
attention = attentions(model)[3]
messages = torch.einsum(
    "hij,jhd,hdw->hjiw",
    state.weights[0],
    state.values[0],
    attention.output_blocks(),
)  # (heads, from j, to i, width)
total = messages.sum(dim=(0, 1)) + attention.output.bias
assert torch.allclose(total, state.added[0], atol=1e-5)
sizes = " × ".join(str(size) for size in messages.shape[:3])
print(f"messages in one layer: {sizes} = {messages.shape[:3].numel()}")

# %% [markdown]
# :::{div} speaker-notes
# 8 minutes up to here. Ask who sends and who receives in each picture. Likely wrong answer: "layer 1, head 10 shows that
# [CLS] is the most important token". It waits for *A large weight may carry nothing*. To save time, cut the table.
# :::
#
# ## Do heads look at different places?
#
# The course note says that heads do *not* attend to different parts of the input (C2.3). The distance of two heads is half
# the sum of the absolute differences of their rows: the share of the weight that would have to move to make the rows equal,
# at most 1. We take the mean over all 66 pairs of heads of a layer.
#
# :::{div} predict
# **Predict.** How far are two heads of one layer apart on average: below 0.1, near 0.25, or near 0.5? And two heads with
# random weights?
# :::

# %% mystnb={"figure": {"caption": "Mean distance between two heads of a layer, in share of attention. Line: mean of the passages, band: lowest to highest. Trained heads look at different places; heads with random weights all look alike, nearly uniformly.", "name": "fig-routing-apart"}, "image": {"alt": "Two lines over layers 0 to 5. The trained line lies between about 0.4 and 0.6 with a narrow band, the untrained one near 0.07."}} tags=["claim"]
ids = probes.equal_length(tokenizer, length=64, words=50)
ordinary = torch.ones_like(ids, dtype=torch.bool)
ordinary[:, [0, -1]] = False  # [CLS] and [SEP]
states = routing.layer_states(model, {"input_ids": ids})
null_states = routing.layer_states(null_model, {"input_ids": ids[:8]})
distance, null_distance = (
    torch.stack([routing.apart(s.weights[:16, :, 1:-1]) for s in each], dim=1)
    for each in (states, null_states)
)  # (texts, layers)
assert distance.min() > 0.25 > 2 * null_distance.max()
print(f"trained {distance.mean():.2f}, untrained {null_distance.mean():.2f}")
away = {}
for name, each in {"trained": states, "untrained": null_states}.items():
    top = torch.stack([state.weights[:, :, 1:-1].argmax(-1) for state in each])
    kept = (top > 0) & (top < 63)  # neither [CLS] nor [SEP]
    away[name] = (top != torch.arange(1, 63))[kept].float().mean()
    print(f"{name}, ordinary token read most: {away[name]:.0%} another one")
assert 0.9 < away["trained"] < 0.97 < away["untrained"]
plots.layers(
    {"trained": distance, "untrained": null_distance},
    y="distance between heads",
    title="Heads of a layer look at different places",
    null=["untrained"],
);
# %% [markdown]
# So the claim is wrong for this model, whichever layer you take. {cite:t}`clark2019` say for BERT what single heads look
# for: the best one for the direct object of a verb finds it in 86.8 % of all cases, the best one for the determiner of a
# noun in 94.3 % (table 1, section 4.2; read from a transcript and so UNCONFIRMED: nobody here has seen the table itself).
#
# Does a head read its own token? Where the token that it reads most is neither [CLS] nor [SEP], it is another one in 95 %
# of all cases. Chance gives 98 % (61 of 62 tokens), and so do the untrained heads. So the own token is the one
# read most in 5 % of these cases, three times as often as by chance, and still rarely.
#
# ## Rollout: a shortcut, and what it assumes
#
# Six layers of graphs are hard to read. **Attention rollout** {cite}`abnar2020` makes one matrix out of them: average
# the heads, mix in the skip connection, multiply the layers.
#
# $$R_l = \big(\rho I + (1-\rho)\,\bar P_l\big)\,R_{l-1}, \qquad R_{-1} = I, \qquad \bar P_l = \tfrac{1}{H}\textstyle\sum_h P_l^h, \qquad \rho = \tfrac12$$
#
# Row $i$ of $R_l$ says from which input tokens position $i$ is mixed. Three things are assumed:
#
# 1. all values are alike: an edge carries its weight and nothing more;
# 2. skip connection and attention weigh the same, $\rho = ½$;
# 3. norms and feed-forward blocks change nothing that matters.
#
# The second can be looked up: how long is $x_i$ beside what the attention adds? The *skip share* is
# $\lVert x_i \rVert / (\lVert x_i \rVert + \lVert a_i \rVert)$. The cell below prints it for each layer, from passages of
# 64 tokens; rollout then gets the mean of the layers.
#
# Then the test. Replace one input token by another and let the whole model run: wherever a state changes, something
# arrived, whatever carried it. The measured effect of token $j$ on position $i$ is
# $\lVert y_i' - y_i \rVert / \lVert y_i \rVert$, where $y_i$ is the state of position $i$ after a layer and $y_i'$ the same
# after the replacement, averaged over two replacements. Twelve passages are cut to 20 tokens for it: [CLS], 18 words or
# pieces of words, and [SEP]. For each of the 18, rank the other 17 by measured effect, and by rollout, and correlate the
# ranks.
#
# Four orders compete: rollout with $\rho = ½$, rollout with the measured skip share, the mean map of the layer itself,
# and the plain mean of all maps so far. A null that knows nothing would be uniform attention, but it ties all tokens, so
# we draw a random order instead. A sharper null says *the nearer, the stronger*.
#
# :::{div} predict
# **Predict.** Rank correlation of rollout with the measured effect after the last layer: near 0, near 0.4, or near 0.8? Does
# plain averaging of maps do worse or better?
# :::

# %%
skips = []
for state in states:
    stays, arrives = (x.norm(dim=-1) for x in (state.hidden, state.added))
    skips.append(float((stays / (stays + arrives))[ordinary].mean()))
skip = sum(skips) / len(skips)
print("skip share by layer:", ", ".join(f"{each:.2f}" for each in skips))
print(f"mean: {skip:.2f}")

short = probes.equal_length(tokenizer, length=20, words=50, n=12)
inner = torch.tensor([False] + [True] * 18 + [False])  # ordinary tokens
shares = {"rollout, measured": skip, "rollout, ½": 0.5}
effects, null_effects = (  # (texts, layers + 1, receiving, replaced)
    routing.random_replacements(each, short) for each in (model, null_model)
)


def agreement(predicted, effects):
    """Rank correlation with measured effects, mean of rows: (texts, layers)."""
    pair = (routing.others(x, inner) for x in (predicted, effects[:, 1:]))
    return routing.rank_correlation(*pair).mean(dim=-1)


predicted = routing.predictions(model, short, shares)
scores = {name: agreement(x, effects) for name, x in predicted.items()}

# %% mystnb={"figure": {"caption": "Rank correlation with the measured effect, mean of 12 passages; bands, where drawn: lowest to highest passage. Rollout is good in lower layers and loses to a plain mean of maps at the top. With the measured skip share it keeps up, and no more.", "name": "fig-routing-rollout"}, "image": {"alt": "Lines over layers 0 to 5. Four coloured lines start at 0.63 and rise to 0.75; then rollout with one half falls to 0.33 at layer 5, the map of the layer alone to 0.55 in layer 3 and 0.40 in layer 5, the mean of maps and rollout with the measured share to 0.60 and 0.56. Nearness rises to 0.66 and falls to 0.25, a random order lies at zero, in grey."}} tags=["claim"]
place = torch.arange(20.0)
near = -(place - place[:, None]).abs().expand(12, 6, 20, 20)
chance = torch.rand(near.shape, generator=torch.Generator().manual_seed(1))
nulls = {"nearness": near, "random order": chance}
nulls = {name: agreement(x, effects) for name, x in nulls.items()}
half, best = scores["rollout, ½"].mean(0), scores["mean of maps"].mean(0)
assert 0.6 < min(skips) < max(skips) < 0.85
assert (half[:4] > 0.6).all() and 0.2 < half[5] < 0.5
assert (half > nulls["nearness"].mean(0)).all()
assert best[5] > half[5] + 0.1
assert scores["rollout, measured"][:, 5].mean() < best[5] + 0.02
assert abs(nulls["random order"].mean()) < 0.05
drawn = {k: v.mean(dim=0) for k, v in (scores | nulls).items()}
plots.layers(
    drawn | {"rollout, ½": scores["rollout, ½"]},
    y="rank correlation with effect",
    title="Rollout predicts lower layers well, upper ones less",
    null=list(nulls),
);


# %% tags=["claim"]
def sources(effects):
    """Effective number of other words behind a position, by layer."""
    found = routing.others(effects[:, 1:], inner)
    shares = found / found.sum(dim=-1, keepdim=True)
    return measures.entropy(shares).exp().mean(dim=(0, 2))


counted, null_counted = sources(effects), sources(null_effects)
stronger, null_stronger = (
    routing.one_way(each[:, 1:], inner).mean(0)
    for each in (effects, null_effects)
)
# What a tree of 18 words cannot do: see below.
assert counted.min() > (18 - 1) / 2 and counted[0] > 2 * 17 / 18
assert stronger.max() < 0.75 and stronger.min() > null_stronger.max() + 0.05
null_predicted = routing.predictions(null_model, short, shares)["rollout, ½"]
null_score = agreement(null_predicted, null_effects)
table = drawn | {"untrained model, rollout ½": null_score.mean(dim=0)}
table = {f"correlation: {name}": row for name, row in table.items()}
table |= {"words behind": counted, "words behind, untrained": null_counted}
table |= {"stronger way": stronger, "stronger way, untrained": null_stronger}
pd.DataFrame({k: v.numpy() for k, v in table.items()}).T.round(2)

# %% [markdown]
# The skip share is about 0.7, not one half. In layer 0 the four orders are one and the same; rollout first differs in the next,
# layer 1. Rollout knows something: it is above nearness in every layer, and in the untrained model, whose maps are nearly uniform, it
# knows less. But multiplying graphs adds nothing to averaging them. With $\rho = ½$ it mixes too fast and forgets who was
# who: after the last layer it has 0.33, the map of that layer alone 0.40, and the plain mean of maps 0.60. With the
# measured share (0.71, the mean of the layers) it comes close to the plain mean, and not beyond it. And take the null
# seriously: in layers 1 and 2, *the nearer, the stronger* reaches 0.65.
#
# ### Is it a tree?
#
# The note says that attention routes many local sources into one global tree (C2.2). Whatever the tree over 18 words:
# content that flows along it flows one way, so of two words at most one gets something of the other. Two things follow.
#
# - *Stronger way*: of all effect between two words, everything is on the stronger of the two ways: 1 for a tree, ½ if both
#   ways are alike. No tree holds more of the effects than this share. Measured: 0.63 to 0.70; untrained 0.53.
# - *Words behind* a position: a mean of at most 8.5 in a tree, and only if it is a chain. We count by the exponential of
#   the entropy of their shares, which is 17 if all others matter alike. Measured: 11.5 to 14.7; untrained 16.8.
#
# Could content run up *and* down the tree? Then one layer would bring a word its neighbours, 1.9 on average (17 edges, 18
# words). After layer 0 there are about 12. So training gives the flow some direction, but it is a mesh and no tree. The
# test is about content that moves between words, in this model. It does not say whether states *describe* a tree, such
# as a parse, nor what holds in the model of the paper that the note has the words from.
#
# ## Follow one token
#
# Click a word in the left column: it is replaced at the input, and each dot says how much a position has changed after a
# layer. Click a word in the right column: the state at one place is exchanged for that of another sentence, and each dot
# says how much of this reaches the chosen output. That is *measured*. The switch *rollout* shows what the product of maps
# says instead.
#
# Only dots are measured. The width of a line is a guess: the dot at its start (in the right-column view: at its end) times
# the attention weight, cut off at the dot on the other end. Changes are relative to the old length and can exceed 1, as where one word takes the place of another.

# %% tags=["claim"]
story = "The key that opens the old doors was lost, so the guard broke them."
other = "A boy who watched the small birds had gone, and his friend called him."
first, second = (
    torch.tensor(tokenizer(each)["input_ids"]) for each in (story, other)
)
story_maps = attention_maps(model, tokenizer, story)["encoder"]
pool = short[:, 1:-1].flatten()
generator = torch.Generator().manual_seed(0)
draws = pool[torch.randint(len(pool), (4, len(first)), generator=generator)]
forward = routing.replacement_effects(model, first, draws)
backward = routing.patching_effects(model, first, second)
words = story_maps.queries
key = words.index("key")
change = dict(enumerate(forward[-1, :, key].tolist()))
ranked = sorted(change, key=change.get, reverse=True)
print(", ".join(f"{words[at]} {change[at]:.2f}" for at in ranked[:9]))
print(", ".join(f"{words[at]} {change[at]:.2f}" for at in ranked[9:]))
assert [words[at] for at in ranked[:4]] == ["key", "that", "opens", "The"]
assert {words[at] for at in ranked[-3:]} == {"old", "doors", "guard"}
assert change[words.index("lost")] > 2 * change[words.index("doors")]

# %% tags=["hide-input"]
from_text = "replaced at the input, changes the last state of"
to_text = "is changed in the last layer by exchanging at the input"
rolled_views = ("is mixed, by rollout, into", "is mixed, by rollout, from")
mean_maps = story_maps.weights.mean(dim=1)
figures.flow_explorer(
    words,
    {
        "measured": figures.FlowView(
            forward.numpy(),
            backward.numpy(),
            from_text,
            to_text,
            "relative change of the state",
        ),
        "rollout": figures.rollout_view(mean_maps.numpy(), skip, *rolled_views),
    },
    mean_maps.numpy(),
    special=story_maps.special_keys.tolist(),
    title="The word “key” reaches “that” and “opens” most",
    token=key,
    alt="Graph of 18 tokens by 7 levels: where the content of the word key goes.",
)

# %% [markdown]
# *That* (0.74), *opens* (0.54) and *The* (0.50) change most; they also stand nearest, and nearness, the null from
# above, explains that much. It does not explain the next: *lost* (0.38), the verb of the main clause, changes more than
# *old* (0.14) and *doors* (0.12), which stand between. One sentence is an example, not evidence.
#
# :::{div} speaker-notes
# 10 minutes. Let the class follow "doors" and "them", then switch to rollout. Likely wrong answer: "a thick line means that
# the line carries it". A line is a guess; only the dots are measured.
# :::
#
# ## What does one head carry?
#
# The course note says: each head preserves almost all information (C2.4). This goes back to the TP-Transformer paper
# {cite}`schlag2019`; which information was meant there, and how it was probed, stands in a part that we have not seen
# (UNCONFIRMED). So we ask it of this model. A **probe** is a linear map that reads a property out of a representation:
# here, which of the 100 commonest tokens stands at a position (positions with another token are left out). It is fitted by
# ridge regression on three quarters of the passages and tested on the others. *Residual stream* is what a layer's
# attention reads, before it has added anything.
#
# A head is only 32 numbers wide. Is that the bottleneck? Compare three things of 32 numbers: the head's *values*, before
# it has mixed anything; its *outputs*, after mixing; and a random projection of the residual stream to 32.
#
# First layer 0 with one split, live. The other layers, three splits and two models with random weights come from the cached
# sweep, with which the live part must agree.
#
# :::{div} predict
# **Predict.** Accuracy in layer 0, where always naming the commonest token gets 0.08. The residual stream has 1.00. What
# have the twelve heads joined? One head's values? One head's outputs?
# :::

# %% tags=["claim"]
targets = probes.common_targets(ids, ordinary, 100)
train = probes.split_by_text(len(ids), seed=0)


def reads(features, wanted=targets):
    """Accuracy of a probe on held-out passages."""
    return probes.probe_accuracy(features, wanted, train)


state = states[0]
live = {"residual": [reads(state.hidden)]}
live["joined"] = [reads(state.outputs.flatten(2))]
live["value"] = [reads(state.values[:, :, head]) for head in range(12)]
live["head"] = [reads(state.outputs[:, :, head]) for head in range(12)]
live = {name: sum(found) / len(found) for name, found in live.items()}
stored = sweep_table("probes")
stored["trained"] = stored["model"] == "trained"
own = stored[(stored["offset"] == 0) & (stored["what"] != "most read")]
again = own[own["trained"] & (own["split"] == 0) & (own["layer"] == 0)]
again = again.groupby("what")["accuracy"].mean()
assert all(abs(again[name] - value) < 0.02 for name, value in live.items())
print(", ".join(f"{name} {value:.2f}" for name, value in live.items()))


# %% mystnb={"figure": {"caption": "Share of held-out tokens that a linear probe reads right, by layer. In layer 0, 32 numbers suffice for four fifths of the tokens, as values or as a random projection. After mixing, one head keeps a quarter; from layer 3 on all heads joined tell less than 32 random numbers. Bands: splits, heads and projections. Grey: 32 random directions of the residual stream; head outputs with random weights.", "name": "fig-routing-probes"}, "image": {"alt": "Lines over layers 0 to 5. The residual stream stays near 1. Values and the random projection fall from 0.82 to 0.47, values faster: 0.57 against 0.68 in layer 3. Joined heads fall from 0.9 to 0.23. Single heads lie near 0.3 and fall to 0.11 with a wide band. Untrained heads lie near 0.13, in grey."}}
def by_layer(what, trained=True):
    """Accuracies (repeats, layers) of the cached sweep."""
    rows = own[(own["what"] == what) & (own["trained"] == trained)]
    keys = ["model", "split", "head"]
    return rows.pivot_table("accuracy", keys, "layer").to_numpy()


lines = {"residual stream": by_layer("residual")}
lines["heads joined"] = by_layer("joined")
lines["one head's values"] = by_layer("value")
lines["one head"] = by_layer("head")
nulls = {"32 random numbers": by_layer("residual, 32 random")}
nulls["one head, untrained"] = by_layer("head", trained=False)
stream, joined, values, heads, random32, idle = (lines | nulls).values()
assert abs(values.mean() - random32.mean()) < 0.08
assert (heads.mean(0) < 0.5 * random32.mean(0)).all()
assert (heads < 0.6 * stream.mean(0)).all()
assert heads[:, 5].mean() < idle[:, 5].mean()
lead = (joined.mean(0) - random32.mean(0)).tolist()
assert min(lead[:3]) > 0 > max(lead[3:])
title = "A head loses most tokens in the mixing"
plots.layers(lines | nulls, y="accuracy", title=title, null=list(nulls));
# %% [markdown]
# "Nearly full information" would put the line *one head* on the line *residual stream*. The
# [evidence page](../pages/evidence.md) says what refutes it: "a head probes clearly worse than a random projection of the
# same width". So it does, in every layer, and the claim does not hold here. In layer 0 the loss happens in the mixing:
# before it, the same heads read 0.83. Higher up 32 numbers lose as well (0.47 in layer 5, where the stream has 0.96), and
# mixing loses more: one head is left with 0.11, less than heads with random weights have.
#
# Nor is the token dealt out among the heads. All twelve joined are 384 numbers, as wide as the stream. They tell 0.90 in
# layer 0 but 0.23 in layer 5, and from layer 3 on less than 32 random numbers of the stream. Upper layers leave to the
# stream what a token is.
#
# What then does a head carry? Ask for the neighbours (offset −1: the token before), and for the token that the head reads
# most. The second question can be put to 48 heads. The other 24 (nine of them in layer 5) read [CLS], [SEP] or a token
# outside the 100 classes most, in more than nine tenths of the positions: too few are left to fit a probe.

# %% mystnb={"figure": {"caption": "What the outputs of single heads tell, one dot a head: the own token, the best of the offsets −2 to 2, the token the head reads most. Grey: always naming the commonest answer to the last question.", "name": "fig-routing-offsets"}, "image": {"alt": "Four strips of dots from 0 to 1. Own token: mean 0.22, at most 0.52. Best offset: a little higher, with two dots near 0.76. Token read most, 48 dots: mean near 0.57, up to 0.87. The grey strip, commonest answer, lies lower, with one dot at 0.74."}} tags=["claim"]
rows = stored[stored["trained"]]
by_offset = rows[rows["what"] == "head"]
by_offset = by_offset.pivot_table("accuracy", ["layer", "head"], "offset")
most = rows[rows["what"] == "most read"].groupby(["layer", "head"])
most = most[["accuracy", "majority"]].mean()
elsewhere = int((by_offset.idxmax(axis=1) != 0).sum())
print(f"heads whose best offset is not their own token: {elsewhere} of 72")
gained = by_offset[0][most.index] - stored.attrs["majority"][0]
better = int((most["accuracy"] - most["majority"] > gained).sum())
print(f"{better} of {len(most)} gain more on the token read than on their own")
passed = reads(state.outputs[:, :, 2], probes.shifted(targets, -1))  # live
print(f"layer 0, head 2 tells the token before: {passed:.2f}, ", end="")
print(f"its own: {(kept := reads(state.outputs[:, :, 2])):.2f}")
assert passed > 0.6 > 0.25 > kept and better > 0.85 * len(most)
assert by_offset.loc[(1, 8)].idxmax() == 1  # the next-token head
means = most.mean()
assert means["accuracy"] > by_offset[0].mean() + 0.2
assert means["accuracy"] > means["majority"] + 0.1
strips = {"own token": by_offset[0], "best offset": by_offset.max(axis=1)}
strips |= {"token read most": most["accuracy"], "commonest": most["majority"]}
title, x = "A head carries what it reads", "accuracy of the probe"
plots.strips(strips, x=x, title=title, null=["commonest"]);
# %% [markdown]
# In 50 of the 72 heads the own token is still the best of the five offsets, but it is told badly: 0.22 on average over all
# 72 heads, where naming the commonest token gets 0.08. The token that a head reads most is told with 0.57, where naming the commonest
# answer gets 0.16 on average (0.74 in one head that mostly reads the same token). In 45 of 48 heads the gain over this
# baseline is larger than for the own token. And the token read most is another one in 95 % of the cases counted
# above. This is the sense in which attention *routes*: a head fetches the identity of another token and leaves the own one
# to the residual stream. Which token, differs from head to head.
#
# :::{div} speaker-notes
# 8 minutes. Likely wrong answer to the prediction: "32 numbers cannot tell 100 tokens apart". They can tell four fifths.
# Linear probes bound what is easy to read, not what is there. To save time, cut the offsets.
# :::
#
# ## A large weight may carry nothing
#
# In the first picture one head read [CLS] with most of its weight (layer 1, head 10). Is [CLS] that important? A message
# is weight *times* value {cite}`kobayashi2020`. So compare the share of *weight* on [CLS] and [SEP] with their share of
# the *norms* of what is handed over, $\lVert m^h_{j \to i} \rVert$.
#
# :::{div} predict
# **Predict.** Take the positions at which a head puts more than 90 % of its weight on [CLS] and [SEP]. Does the head add more
# than usual there, as much, or less?
# :::


# %% mystnb={"figure": {"caption": "For each head: rank correlation, over positions, of the weight on [CLS] and [SEP] with the norm of what the head adds. The more of its weight a trained head puts on them, the less it adds, in all but 5 of the 72 heads. Untrained heads scatter around 0.", "name": "fig-routing-sinks"}, "image": {"alt": "Two strips of dots from minus 1 to 1. Trained heads: most between minus 0.5 and minus 1, five above zero. Untrained heads, grey: scattered around zero, from minus 0.8 to 0.8."}} tags=["claim"]
weight, norm, added = routing.sink_rows(model, tokenizer, passages(8, words=50))
null_rows = routing.sink_rows(null_model, tokenizer, passages(8, words=50))
silent = routing.rank_correlation(weight, added)
null_silent = routing.rank_correlation(null_rows[0], null_rows[2])
nothing = float((added / added.mean(-1, keepdim=True))[weight > 0.9].mean())
special = {"trained": (weight, norm), "untrained": null_rows[:2]}
special["layer 1, head 10"] = (weight[1, 10], norm[1, 10])
for name, (share, norms) in special.items():
    shown = f"{share.mean():.2f} of the weight, {norms.mean():.2f} of the norms"
    print(f"[CLS] and [SEP], {name}: {shown}")
assert weight[1, 10].mean() > 0.4 and norm[1, 10].mean() < 0.1
often = float((weight > 0.9).float().mean())
print(f"over 90 % of the weight: in {often:.1%} of all cases; there a head")
print(f"adds {nothing:.2f} of its mean")
print(f"correlation: {silent.mean():.2f}, untrained {null_silent.mean():.2f}")
assert norm.mean() < 0.5 * weight.mean() and nothing < 0.4
assert silent.mean() < -0.5 and (silent < 0).float().mean() > 0.85
assert null_silent.mean() > -0.2
plots.strips(
    {"trained": silent, "untrained": null_silent},
    x="correlation of weight on special tokens with what is added",
    title="The more weight on [CLS] and [SEP], the less a head adds",
    null=["untrained"],
    reference=0.0,
);

# %% [markdown]
# The answer to the prediction: less, 0.21 of the head's mean, in the 1.5 % of cases (a head at a position) where special
# tokens get more than 90 %. Over all heads they have 0.29 of the weight and 0.05 of the norms; the head of the first
# picture gives them 0.48 of its weight and gets 0.04 of its norms from them. In untrained heads both shares are 0.03, as
# two of many tokens should have.
#
# So the special tokens are a **sink**: weights must sum to 1, and they go there as if the head had nothing to fetch;
# little comes back. A head can be a no-op (it does nothing) at some positions and busy at others. That is why a map of
# weights is not a map of flow.
#
# ## What heads share
#
# Heads are computed apart and added up. Still they may use the same directions of the residual stream (C3b.1 on the second
# claim card). {cite:t}`cordonnier2020` look at the singular values of one head's product $M^h = W_Q^h W_K^{h\top}$, and
# of the product of the undivided matrices, which is the sum over heads; by their abstract, queries and keys can do with a
# quarter of the width at equal accuracy and speed. We ask how many directions hold 90 % of the squared singular values,
# $\sum\sigma^2$, for queries and keys, and for values and outputs ($M^h = W_V^h W_O^h$), of three things:
#
# - *one head*, $M^h$;
# - the *sum of heads*, $\sum_h M^h$;
# - the heads *side by side*, $[M^1\; M^2 \cdots M^{12}]$, 384 × 4608: how many input directions serve all heads. Set one
#   under another, they give the number for the other side; the table has the mean of the two.
#
# Only the last counts what is *shared*: in a sum, parts can also cancel or add up. So a last column compares the size of
# the sum with its parts, $\lVert\sum_h M^h\rVert^2 / \sum_h \lVert M^h \rVert^2$: 1 if the products have nothing to do with
# each other, less if they cancel, more if they add up.
#
# Two nulls. *Random*: independent Gaussian heads. *Scattered*: the trained heads, each turned at random; it keeps its own
# spectrum and loses the directions that it shares with others.
#
# :::{div} predict
# **Predict.** The product of two undivided matrices has 384 singular values. How many hold 90 % of $\sum\sigma^2$ if the
# matrices are random: 346, about 250, or about 140?
# :::


# %%
needs = subspaces.needed_directions
generator = torch.Generator().manual_seed(0)
gaussian = torch.randn(2, 6, 12, 384, 32, generator=generator)
found = {"random": [needs(*each) for each in zip(*gaussian, strict=True)]}
for part in subspaces.PARTS:
    layers = subspaces.factors(model, part)
    found[part] = [needs(*layer) for layer in layers]
    turned = [subspaces.scattered(*layer, seed=5) for layer in layers]
    found[f"{part}, scattered"] = [needs(*layer) for layer in turned]
found = {name: torch.tensor(rows) for name, rows in found.items()}
columns = ["one head", "sum of heads", "side by side", "sum ÷ parts"]
table = {name: rows.mean(dim=0).numpy() for name, rows in found.items()}
table = pd.DataFrame(table, index=columns).T
table = table.round(dict.fromkeys(columns[:3], 0) | {"sum ÷ parts": 1})
a, b = subspaces.factors(model, "query-key")[0]
size = (a @ b.mT).square().sum(dim=(1, 2))
print(f"layer 0: one head holds {size.max() / size.sum():.0%} of all Σσ²")
table.astype(dict.fromkeys(columns[:3], int))

# %% mystnb={"figure": {"caption": "Directions that hold 90 % of \u03a3\u03c3\u00b2 of the sum of a layer's heads, by layer. Random matrices need only about 143 of 384: compare with that, not with 384. Queries and keys need a third to three fifths of it, values and outputs two thirds to a little more than all of it. Scattered: the trained queries and keys, each head turned at random; it is low in layer 0, where one head outweighs all others together.", "name": "fig-routing-spectra"}, "image": {"alt": "Four lines over layers 0 to 5. Random near 143 and flat. Values and outputs near 105, rising to about 154 in the last layer. Queries and keys near 60, rising to 84. Scattered queries and keys, grey, from 89 in layer 0 to about 135, with 119 in layer 4."}} tags=["claim"]
query_key, value_output = (found[part][:, 1] for part in subspaces.PARTS)
null_sum = found["random"][:, 1]
scattered = found["query-key, scattered"][:, 1]
assert (found["query-key"][:, 0] > 20).all()  # a head uses its width
assert (query_key < 0.65 * null_sum).all() and (query_key < scattered).all()
assert (query_key < value_output - 15).all()
assert value_output.max() > null_sum.min()  # in one layer: no sharing
side, size = found["query-key"][:, 2:].T  # side by side, sum ÷ parts
value_side, value_size = found["value-output"][:, 2:].T
fewer = (found["query-key, scattered"][:, 2] - side).mean()
value_fewer = (found["value-output, scattered"][:, 2] - value_side).mean()
assert 50 > fewer > value_fewer > 15  # side by side, both parts share
assert size.min() > 1.2 and value_size.max() < 1  # one adds up, one cancels
plots.layers(
    {
        "queries, keys": query_key,
        "random": null_sum,
        "values, outputs": value_output,
        "scattered": scattered,
    },
    y="directions for 90 % of Σσ²",
    title="The sum of heads needs fewest directions for queries and keys",
    null=["random", "scattered"],
);
# %% [markdown]
# One head is not of low rank: it uses 24 of its 32 directions, and random heads use 26. The sum is. But most of the
# way down from 384 is free: any product of two random square matrices decays like that. Without the null, the figure
# misleads.
#
# What is shared shows side by side, and there both parts share: 131 directions instead of the 166 of scattered heads for
# queries and keys, 150 instead of 178 for values and outputs. What sets queries and keys apart is the sum. Their products
# *add up*: the sum has 1.9 times the squared size of its parts, scattered heads 1.0. What heads have in common grows in a
# sum faster than what each has alone, and so fewer directions hold 90 %. [Chapter 1](01-asymmetry.ipynb) found the same
# for symmetric parts. Products of values and outputs cancel a little (0.8). The second claim card says "about queries
# and keys": that is what {cite:t}`cordonnier2020` show. Our measurement is that side by side, values share nearly as much
# (in the last layer hardly at all).
#
# But a spectrum cannot say which directions *matter*. So do the test: keep $D$ of 384 directions on each of the two sides
# of a product (the query and the key side; the value and the output side), in every layer: the same for all heads, or
# $D/12$ private ones for each head, or random ones. How much of the sentence embedding survives? The floor is the cosine
# with $D = 0$: attention without queries and keys is uniform, and without values it adds nothing but a constant.
#
# :::{div} predict
# **Predict.** Half of the directions, $D = 192$. Shared by all heads, or the best 16 of each head: which embedding is closer to
# that of the whole model? The same for values and outputs?
# :::

# %% tags=["claim"]
sweep = sweep_table("shared_directions")
means = sweep.groupby(["part", "how", "directions"])["mean"].mean()
survives, floor = {}, {}
for part in subspaces.PARTS:
    for how in subspaces.WAYS:
        kept, none = (
            float(subspaces.survival(model, ids[:16], each, how, part).mean())
            for each in (192, 0)
        )
        assert abs(kept - means[part, how, 192]) < 0.06
        survives[part, how], floor[part, how] = kept, none
shared, private, random = (survives["query-key", way] for way in subspaces.WAYS)
assert shared > 0.9 and shared > private + 0.1 > random + 0.2
assert max(floor.values()) < 0.5
table = means.unstack()
table.insert(0, "0, live", pd.Series(floor))
table["192, live"] = pd.Series(survives)
table.round(2)

# %%
# The same storage on each side: 96 shared directions, which each of 12 heads
# mixes into its 32 numbers, or 16 private directions for each head.
assert 96 * (384 + 12 * 32) == 12 * 16 * 384
fair = means.unstack()[[96, 192]]
gain = {}
for part, sign in {"query-key": 1, "value-output": -1}.items():
    gain[part] = fair.loc[part, "shared"][96] - fair.loc[part, "private"][192]
    print(f"{part}: 96 shared − 16 private a head, {gain[part]:+.2f}")
    assert sign * gain[part] > 0.05
figures.curve_explorer(
    sweep,
    x="directions",
    y="mean",
    low="p10",
    high="p90",
    by="how",
    sliders=["part"],
    null=["random"],
    at=192,
    title="Queries and keys: shared directions beat private ones",
    x_label="directions kept of 384, in every layer",
    y_label="cosine to the whole model",
    spread="the middle 80 % of the passages",
    alt="Cosine of embeddings by kept directions: shared, private, random.",
)

# %% [markdown]
# As many shared directions keep more than private ones, for both parts: at 192 it is 0.96 against 0.80 for queries and
# keys, 0.89 against 0.81 for values and outputs, above a floor of 0.44 and 0.43. But a shared direction costs more.
#
# | on each side | directions | numbers that each head mixes them with | in all |
# |---|---|---|---|
# | 96 shared | 96 · 384 | 12 · 96 · 32 | 73,728 |
# | 16 private a head | 12 · 16 · 384 | none | 73,728 |
#
# At this equal storage sharing wins for queries and keys (by 0.08) and loses for values and outputs (by 0.10). So the
# note's claim (C3b.1) has a point, with two corrections. It is another paper's. And both parts share, but at equal storage
# sharing pays for queries and keys only, whose common part adds up.
#
# :::{div} speaker-notes
# 8 minutes. Show the spectra without the grey lines first, and ask what they prove. Likely wrong answer: "shared directions
# mean that heads do the same". They use one room for different questions: see the distances above.
# :::
#
# ## Where this breaks
#
# :::{div} breaks
# A graph of attention weights is not a graph of information. Silence *every* head of the model: multiply what heads say by
# 0, and leave everything else. No content can move between positions now. The model still computes attention weights,
# from states that no head has changed, and rollout still multiplies them.
# :::

# %% mystnb={"figure": {"caption": "All heads silenced: nothing moves between words. Rollout goes on as in the whole model and reports that more than nine tenths of each position come from others. Each dot is one word of one passage.", "name": "fig-routing-breaks"}, "image": {"alt": "Four strips of dots. Effect with heads silenced: all at zero, grey. Effect in the whole model: from 0.1 to 0.47, mean near 0.26. Rollout with heads silenced and rollout of the whole model: both close to 0.96."}}
with ablated(model, heads_of(model)):
    silenced = routing.random_replacements(model, short)
    claimed = routing.predictions(model, short, shares)
moved, normal = (
    routing.others(each[:, -1], inner).mean(dim=-1)
    for each in (silenced, effects)
)
from_others, usual = (
    1 - each["rollout, ½"][:, -1][:, inner].diagonal(1, 1, 2)
    for each in (claimed, predicted)
)
assert moved.max() < 1e-5  # nothing arrives anywhere else
assert (from_others.mean() - usual.mean()).abs() < 0.05  # rollout: as ever
plots.strips(
    {
        "effect, heads silenced": moved,
        "effect, whole model": normal,
        "rollout, heads silenced": from_others,
        "rollout, whole model": usual,
    },
    x="mean effect of the other words; share that rollout gives to others",
    title="Rollout reports flow where nothing flows",
    null=["effect, heads silenced"],
);

# %% [markdown]
# The other limits of this chapter: one small encoder, technical English, linear probes. A replaced token is also an unusual
# input, and an effect of its absence is not the same as its information arriving. Keeping directions is surgery without
# retraining.
#
# ## Since 2021
#
# - Many heads or one? {cite:t}`liu2021` stack single-head layers: such models attend to several positions too. In their
#   reading the main gain of many heads is stable training (24 layers of 16 heads against 384 layers of one).
# - Sinks got names and uses: {cite:t}`xiao2024` keep them while streaming, {cite:t}`gu2025` ask when they emerge in training,
#   {cite:t}`bondarenko2023` trace outliers that hinder quantisation to heads that try to do nothing, {cite:t}`barbero2025` read
#   them as a protection against over-mixing (tokens that become alike).
# - Routing heads exist in large models: {cite:t}`wu2024b` report that fewer than 5 % of heads do long-context copying
#   (abstract; 3 to 6 % by model, read from a transcript), and that masking them costs far more than masking random heads.
# - {cite:t}`courtois2024` use the overlap of queries and keys for a symmetric score with fewer parameters.
#
# ## Exercises
#
# ::::{div} exercise
# **Exercise 2.1** · difficulty 2/5 · about 10 minutes · needs "A layer is a sum of messages"
#
# Return the messages of one head: what moves from each token $j$ to each token $i$, $j$ on the first axis.
#
# :::{dropdown} Hint
# What token $j$ offers, in the width of the model, is `values @ w_o`. It does not depend on the receiver.
# :::
# :::{dropdown} Second hint
# The weight of the message from $j$ to $i$ is `weights[i, j]`. You need the transpose.
# :::
# ::::


# %%
def head_messages(weights, values, w_o):
    """(n, n), (n, d_head), (d_head, width) → (n, n, width): from j to i."""
    ### BEGIN SOLUTION
    return weights.T[:, :, None] * (values @ w_o)[:, None, :]
    ### END SOLUTION


check("2.1", head_messages, routing_exercises.moves_from_key_to_query)

# %% [markdown]
# ::::{div} exercise
# **Exercise 2.2** · difficulty 3/5 · about 15 minutes · needs "Rollout: a shortcut, and what it assumes"
#
# Write a rollout in which *each layer has its own* skip share $s$: the share $s$ stays, $1 - s$ goes to the map. (Above, all
# layers had the mean share.) Return the matrix after the last layer.
#
# :::{dropdown} Hint
# Start with the identity and go through the layers from the first on.
# :::
# :::{dropdown} Second hint
# The later layer stands on the left: its rows are the ones that receive.
# :::
# ::::


# %%
def my_rollout(maps, shares):
    """maps (layers, n, n), shares (layers,). Returns (n, n)."""
    ### BEGIN SOLUTION
    rolled = torch.eye(maps.shape[-1])
    for step, share in zip(maps, shares, strict=True):
        mixed = share * torch.eye(maps.shape[-1]) + (1 - share) * step
        rolled = mixed @ rolled
    return rolled
    ### END SOLUTION


check("2.2", my_rollout, routing_exercises.multiplies_the_layers)

# %% [markdown]
# ::::{div} exercise
# **Exercise 2.3** · difficulty 2/5 · about 10 minutes · needs "A large weight may carry nothing"
#
# Return the share of special tokens in the norms of a head's messages, as opposed to the share in its weight: a share for
# each receiving token (query), then the mean over all of them.
#
# :::{dropdown} Hint
# The norm of a message is the weight times the norm of what the key offers.
# :::
# :::{dropdown} Second hint
# Divide for each receiving token first, then take the mean over them.
# :::
# ::::


# %%
def contribution_share(weights, offered, special):
    """weights (n, n), offered (n, width): what each key offers, special (n,).

    Returns a number: mean over all queries of the share of message norms.
    """
    ### BEGIN SOLUTION
    norms = weights * offered.norm(dim=-1)
    return float((norms[:, special].sum(-1) / norms.sum(-1)).mean())
    ### END SOLUTION


check(
    "2.3",
    contribution_share,
    routing_exercises.weighs_by_what_is_offered,
)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "In layer 0 a probe reads the own token with 0.26 from the outputs of one head. Which comparison shows that the width of 32 numbers is not the reason?",
    [
        (
            "With the head's values before mixing: 0.83",
            True,
            "Same head, same width, and the token is there. What comes between is the mixing.",
        ),
        (
            "With the outputs of all heads joined: 0.90",
            False,
            "Those are 384 numbers. Read alone, this comparison would speak for the width.",
        ),
        (
            "With what the residual stream holds: 1.00",
            False,
            "It is 384 numbers wide as well, so width and mixing differ at once.",
        ),
        (
            "With heads that have random weights: 0.13",
            False,
            "Same width, but they tell less. They cannot show that 32 numbers could tell more.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "At one query a head puts 95 % of its weight on [CLS]. Which further number says how much [CLS] gives to this query there?",
    [
        (
            "The norm of the message that [CLS] sends",
            True,
            "Weight times what is offered. For trained heads it is small at such places.",
        ),
        (
            "The weight of [CLS] in the layer's other heads",
            False,
            "It says where other heads look. What this head gets is as unknown as before.",
        ),
        (
            "The row of this query in the model's rollout",
            False,
            "Rollout multiplies weights and treats all values as alike: its first assumption.",
        ),
        (
            "The length of the state of [CLS] in that layer",
            False,
            "A long state can offer little: the head's W_{V} and W_{O} stand in between.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "The sum of a layer's query–key products needs 65 directions on average; with the same heads scattered it is 125, and with random heads 143. What is 65 against 125 due to?",
    [
        (
            "Single heads of low rank: each of them uses few directions",
            False,
            "Scattered heads keep their own spectra, 24 of 32, and still need 125 in the sum.",
        ),
        (
            "Products of random matrices: their spectra decay anyway",
            False,
            "That is in both numbers. It explains 143 instead of 346, not 65 instead of 125.",
        ),
        (
            "Heads that have something in common, and that adds up in the sum",
            True,
            "Scattering takes away what heads share. Side by side it saves 35 directions, in the sum 60.",
        ),
        (
            "Heads that look at the same tokens, so that their maps are alike",
            False,
            "Their maps are far apart: 0.53 of the weight. They use common directions for different questions.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "All heads of the model are silenced: what they add is multiplied by 0. What does attention rollout do?",
    [
        (
            "It becomes the identity, since nothing moves between tokens",
            False,
            "It would have to know what heads add. It sees weights, and their rows still sum to 1.",
        ),
        (
            "It stays the same to the digit, since weights are not touched",
            False,
            "Layer 0 has the same maps. Layers above read states that no head has changed, so theirs differ.",
        ),
        (
            "It falls by the measured skip share, since only skips are left",
            False,
            "The skip share is fixed beforehand: rollout does not measure it again.",
        ),
        (
            "It goes on as before, with other maps in all but the lowest layer",
            True,
            "More than nine tenths of each row still come from others, by rollout. In truth nothing does.",
        ),
    ],
)

# %% [markdown]
# ## Verdicts
#
# What this notebook measured, claim by claim. C2.1, where the course note has the insight from, is a matter of reading: the
# TP-Transformer paper of 2019 {cite}`schlag2019`, not the fast-weights paper of 2021 {cite}`schlag2021`. C2.2 is tested
# for content that moves between words of this model; what the paper saw in its own model is not tested. For C2.4 the
# means of three splits are recorded, 0.82 and 0.27; the one split that ran above had 0.83 and 0.26. C2.5 holds in a
# narrower sense only: heads differ in *which tokens* they read and hand on. How they combine what they read, the claim's
# own words, was not tested. C2.6 is an
# argument, and its premises fail above; whether something cheaper than dense attention works is the subject of insight
# 10. C3b.1 holds with two conditions: for values the sharing is there but does not pay at equal storage, and this is one
# small model.

# %%
tree = {"share of effect on the stronger way": round(float(stronger[-1]), 2)}
tree |= {"untrained": round(float(null_stronger[-1]), 2), "same, in a tree": 1}
tree |= {"words behind": round(float(counted[-1]), 1), "at most in a tree": 8.5}
places = {"distance of two heads, trained": round(float(distance.mean()), 2)}
places["untrained"] = round(float(null_distance.mean()), 2)
carried = {
    f"layer 0, {name}": round(float(accuracy[:, 0].mean()), 2)
    for name, accuracy in lines.items()
}
told = round(float(most["accuracy"].mean()), 2)
ways = {"heads whose best offset is not 0": elsewhere, "token read most": told}
common = {
    f"{what}, {name}": round(float(rows[:, at].mean()))
    for at, what in ((1, "sum of heads"), (2, "side by side"))
    for name, rows in found.items()
}
for part, more in gain.items():
    common[f"cosine, 96 shared − 16 private, {part}"] = round(more, 2)
display(
    claims.record("C2.2", tree, "does not hold"),
    claims.record("C2.3", places, "does not hold"),
    claims.record("C2.4", carried, "does not hold"),
    claims.record("C2.5", ways, "holds with conditions"),
    claims.record("C3b.1", common, "holds with conditions"),
)

# %% [markdown]
# ## Takeaways
#
# 1. Attention is a sum of messages from keys to queries. Weights say where a head reads; values decide what arrives.
# 2. The residual stream keeps what a token is. A head carries what it fetches elsewhere, and heads differ in where that is.
# 3. Heads share directions for queries and keys and, nearly as much, for values. At equal storage sharing pays for queries
#    and keys only. Compare every spectrum with that of random matrices.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
