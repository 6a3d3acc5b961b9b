# %% [markdown]
# # Self-attention is not symmetric
#
# **The insight.** Attention *may* be asymmetric, because queries and keys have their own weights. How asymmetric a
# head really is, training decides: in this bidirectional encoder, less than chance would have it.

# %% tags=["hide-input"]
import pandas as pd
import torch
from IPython.display import display
from transformers import AttentionInterface

from utils import claims, figures, measures, plots
from utils.corpora import passages
from utils.exercises import check
from utils.models import load, untrained

plots.use_style()
claims.card(1)

# %% [markdown]
# ## Objectives
#
# You know matrix products and the softmax, and you have seen a Transformer on one page
# ([prerequisites](../pages/prerequisites.md)). With this notebook in front of you, you will be able to
#
# - **state** exactly when attention scores are symmetric, and give a counter-example to "W_Q ≠ W_K, so they are not";
# - **measure** the asymmetry of every head of a model against a null model, and avoid two traps in doing so;
# - **explain** what tied weights make symmetric and what they do not, correctly for scores *and* for weights;
# - **say** in one sentence in which direction a head reads and in which direction content moves.
#
# Reading takes about 30 minutes, running about half a minute. All of it runs live; nothing is cached.

# %% [markdown]
# ## Two directions in one picture
#
# A row of an attention matrix belongs to one query. It says where that token *reads*. Content moves the other way:
# from the key that is read to the query that reads it.

# %% mystnb={"figure": {"caption": "One made-up attention matrix, drawn twice. A query reads from its keys; the content of the keys flows to the query. Only the direction of the arrows differs.", "name": "fig-asymmetry-directions"}, "image": {"alt": "Two rows of the five words the, key, opens, the, door with curved arrows. In the upper row an arrow starts at each reading word. In the lower row every arrow is reversed."}}
sentence = ["the", "key", "opens", "the", "door"]
reads = torch.tensor(
    [
        [0.7, 0.3, 0.0, 0.0, 0.0],
        [0.2, 0.5, 0.3, 0.0, 0.0],
        [0.0, 0.5, 0.1, 0.0, 0.4],
        [0.0, 0.0, 0.0, 0.6, 0.4],
        [0.0, 0.0, 0.6, 0.2, 0.2],
    ]
)
# "opens" reads "door" with 0.4, "door" reads "opens" with 0.6
assert reads[2, 4] != reads[4, 2]
figure, axes = plots.plt.subplots(2, 1, figsize=(6.5, 4.4))
plots.flow(
    reads, sentence, reading=True, title="Where each query looks", ax=axes[0]
)
plots.flow(reads, sentence, title="How content flows", ax=axes[1]);

# %% [markdown]
# ## When are scores symmetric?
#
# Take token vectors $X$ (tokens × width), one per row, and one head.
#
# $$S = \frac{Q K^\top}{\sqrt{d_h}} = \frac{X M X^\top}{\sqrt{d_h}}, \qquad M = W_Q W_K^\top$$
#
# | symbol | in code | shape |
# |---|---|---|
# | $W_Q$, $W_K$ | `w_q`, `w_k` | width × d_head |
# | $M$ | `products` (all heads) | width × width, of rank ≤ d_head |
# | $S$ | `scores` | tokens × tokens, row = query |
# | $P = \mathrm{softmax}(S)$ | `weights` | tokens × tokens, rows sum to 1 |
#
# Up to the constant $1/\sqrt{d_h}$, the score of token $i$ for token $j$ is $x_i M x_j^\top$; the other way round it is $x_j M x_i^\top = x_i M^\top x_j^\top$.
# They agree for *every* choice of tokens exactly when $M = M^\top$. Nothing in this says $W_Q = W_K$.
#
# The course note offers a proof: "W_Q ≠ W_K, therefore the matrix is asymmetric."
#
# :::{div} predict
# **Predict.** Take any $W_Q$ and set $W_K = -W_Q$. The weights differ in every entry. Are the scores symmetric?
# :::

# %%
generator = torch.Generator().manual_seed(1)
hidden, w_q, other, mixing = (
    torch.randn(shape, generator=generator, dtype=torch.float64)
    for shape in [(12, 64), (64, 16), (64, 16), (16, 16)]
)
choices = {
    "independent": other,
    "W_K = W_Q": w_q,
    "W_K = −W_Q": -w_q,
    "W_K = W_Q A, A symmetric": w_q @ (mixing + mixing.T),
}
asymmetry = {}
for name, w_k in choices.items():
    scores = (hidden @ w_q) @ (hidden @ w_k).T / 16**0.5
    asymmetry[name] = float(measures.relative_asymmetry(scores))
# Unequal weights can give symmetric scores: the note's proof does not hold.
assert asymmetry["W_K = −W_Q"] < 1e-12
assert asymmetry["W_K = W_Q A, A symmetric"] < 1e-12
assert asymmetry["independent"] > 0.5
pd.Series(asymmetry, name="relative asymmetry of S").round(3).to_frame()

# %% [markdown]
# Inequality is not enough. What matters is the product. (With biases, $q_i = x_i W_Q + b_Q$: append a 1 to every
# token and a row to every weight, and the same argument runs. Tying then means tying weights *and* biases.)
#
# ## How symmetric is a trained head?
#
# Split $M$ into its symmetric part $M_s = (M + M^\top)/2$ and its antisymmetric part $M_a = (M - M^\top)/2$. One
# number tells which of the two is larger:
#
# $$s(M) = \frac{\lVert M_s\rVert^2 - \lVert M_a\rVert^2}{\lVert M\rVert^2} \in [-1, 1]$$
#
# It is 1 for a symmetric matrix, −1 for an antisymmetric one, and close to 0 when entries above and below the diagonal
# know nothing of each other.
#
# The model is all-MiniLM-L6-v2, a bidirectional encoder: 6 layers of 12 heads, width 384, d_head 32. The null model
# has the same shape and fresh weights, drawn as the model's own code draws them, for five seeds.
#
# :::{div} predict
# **Predict.** Where do the 72 trained heads lie: below the null model (training makes heads directional), on it
# (training does not care), or above it (training makes heads symmetric)?
# :::

# %%
model, tokenizer = load("minilm")
null_models = [untrained(model, seed=seed) for seed in range(5)]
products = measures.query_key_products(model)  # (layers, heads, width, width)
trained = measures.symmetry_score(products)
null_products = map(measures.query_key_products, null_models)
null = torch.stack([measures.symmetry_score(each) for each in null_products])
for name, s in {"trained": trained, "untrained": null}.items():
    print(f"{name:9} mean {s.mean():6.3f}, from {s.min():.3f} to {s.max():.3f}")

# %% mystnb={"figure": {"caption": "Symmetry score of W_Q W_K\u1d40, one dot a head. Untrained heads sit at zero. Training moves nearly all of them to the right: towards symmetry. None reaches 1.", "name": "fig-asymmetry-heads"}, "image": {"alt": "Two strips of dots. The untrained strip, 360 dots, is a narrow band at zero. The trained strip, 72 dots, spreads from about minus 0.2 to plus 0.7, with its mean near 0.17."}} tags=["claim"]
# Nearly all trained heads are more symmetric than any of 360 untrained ones.
assert trained.mean() > 0.1 and (trained > null.max()).float().mean() > 0.9
assert (trained < null.min()).float().mean() < 0.15
plots.strips(
    {"trained (72 heads)": trained, "untrained (5 × 72)": null},
    x="symmetry score s: −1 antisymmetric, 1 symmetric",
    title="Training makes heads more symmetric than chance",
    null=["untrained (5 × 72)"],
    reference=0.0,
);

# %% [markdown]
# The slogan and the data point in opposite directions. Every head is asymmetric: none reaches 1. But training has not
# *used up* the freedom to be asymmetric. It has moved the heads the other way.
#
# Which heads are the exceptions? Look at the grid. Then ask the same of whole layers: the sum of the products of its
# heads is $W_Q W_K^\top$ of the undivided matrices.

# %% mystnb={"figure": {"caption": "The same 72 numbers by layer and head. Only layer 4, head 9 is clearly more antisymmetric than symmetric. Blue is symmetric; the last layer is palest.", "name": "fig-asymmetry-grid"}, "image": {"alt": "A grid of 6 layers by 12 heads coloured by symmetry score. Nearly all cells are blue, for symmetric; one in layer 4 is orange, for antisymmetric; the last layer is palest."}} tags=["claim"]
assert (trained < -0.05).sum() == 1 and (trained > 0.5).any()
options = {"signed": True, "limit": 1.0, "numbers": True}
plots.head_grid(
    trained,
    title="One head of 72 is mainly antisymmetric",
    value_label="symmetry score",
    **options,
);

# %% mystnb={"figure": {"caption": "Symmetry by layer. Summed over its heads, a layer is far more symmetric than its single heads: their symmetric parts add up, their directions do not. Bands show the range over heads and seeds.", "name": "fig-asymmetry-layers"}, "image": {"alt": "Three lines over layers 0 to 5. The sum of heads lies between 0.25 and 0.65, the mean of single heads near 0.2 with a wide band, the untrained sum on zero."}} tags=["claim"]
layer_sums = measures.symmetry_score(products.sum(dim=1))
null_products = map(measures.query_key_products, null_models)
null_sums = [measures.symmetry_score(each.sum(dim=1)) for each in null_products]
null_sums = torch.stack(null_sums)

assert (layer_sums > null_sums.max()).all()
assert layer_sums.mean() > 2 * trained.mean()
# Across the heads of a layer symmetric parts add up, antisymmetric ones do not.
growth = []
for part in (products + products.mT) / 2, (products - products.mT) / 2:
    growth.append(
        part.sum(1).square().sum((1, 2)) / part.square().sum((1, 2, 3))
    )
assert growth[0].min() > 1.5 > growth[1].max()
curves = {"sum of heads": layer_sums, "single heads": trained.T}
plots.layers(
    curves | {"untrained, sum": null_sums},
    y="symmetry score",
    title="A whole layer is more symmetric than its heads",
    null=["untrained, sum"],
);

# %% [markdown]
# :::{div} speaker-notes
# 8 minutes. Ask for a show of hands on the prediction before you run; expect votes for "below". Likely wrong answer:
# "random weights are maximally asymmetric, so s = −1". They are *indifferent*, s = 0. To save time, cut the layer sums.
# :::
#
# ## Two traps when you measure scores on text
#
# Weights are one thing, scores on real text another: $S$ also depends on which vectors $X$ occur. Here are the scores of
# every head on 16 passages of 64 tokens.
#
# :::{div} predict
# **Predict.** The weights of an untrained model score 0. What do its *scores on text* score: 0, more, or less?
# :::

# %%
texts = passages(16, words=80)
batch = tokenizer(texts, truncation=True, max_length=64, return_tensors="pt")
assert batch["attention_mask"].all()  # no padding


@torch.no_grad()
def scores_on_text(model, tie=0.0):
    """Scores of every head, (layers, texts, heads, tokens, tokens).

    ``tie`` moves W_K and b_K towards W_Q and b_Q.
    """
    inputs = model(**batch, output_hidden_states=True).hidden_states[:-1]
    scores = []
    for x, head in zip(inputs, measures.query_key_weights(model), strict=True):
        w_k = torch.lerp(head.w_k, head.w_q, tie)
        b_k = torch.lerp(head.b_k, head.b_q, tie)
        queries = x[:, None] @ head.w_q + head.b_q[:, None]
        keys = x[:, None] @ w_k + b_k[:, None]
        scores.append(queries @ keys.mT / head.w_q.shape[-1] ** 0.5)
    return torch.stack(scores)


# %% tags=["claim"]
table = {}
for name, who in {"trained": model, "untrained": null_models[0]}.items():
    scores = scores_on_text(who)
    versions = {
        "scores": scores,
        "scores, double-centred": measures.double_centered(scores),
        "attention weights": scores.softmax(-1),
    }
    found = {
        what: measures.symmetry_score(s).mean() for what, s in versions.items()
    }
    table[name] = {what: float(value) for what, value in found.items()}
_, centred, weights = table["trained"].values()
_, null_centred, null_weights = table["untrained"].values()
# Trained scores are more symmetric than the null on text too, once centred.
assert centred > 0.3 > 0.1 > null_centred
assert weights < 0.5 < 0.9 < null_weights
pd.DataFrame(table).round(2)

# %% [markdown]
# Both surprises are artefacts.
#
# *Trap 1: raw scores look symmetric even without training.* All tokens share a mean vector, which adds a common constant
# to all scores, and a constant matrix is its own transpose. Subtract row and column means (double-centring), and the
# untrained model is back near 0. The softmax ignores row means anyway.
#
# *Trap 2: attention weights look almost perfectly symmetric without training.* An untrained head attends nearly
# uniformly, and the uniform matrix *is* symmetric. Never compare trained attention weights with an untrained model
# without saying so.
#
# ## What the asymmetry is for
#
# Any score matrix is a sum of three parts, once the row means that the softmax ignores are gone:
#
# $$S_{ij} = \underbrace{c_j}_{\text{popularity}} + \underbrace{A_{ij}}_{\text{affinity},\ A = A^\top} +
# \underbrace{N_{ij}}_{\text{direction},\ N = -N^\top} + \text{(row mean)}$$
#
# *Popularity* is the column mean: key $j$ is read more by everyone. *Affinity* is what two tokens have for each other
# both ways. *Direction* is what one has for the other and the other does not have back. Asymmetry is popularity and
# direction.
#
# Look at head 2 of layer 0, whose score on the weights was an ordinary 0.21: every token reads the token before it.
# "Before" is a direction.
#
# :::{div} predict
# **Predict.** Take the direction out of this head. Where does it look then? (Rows of the table: the part taken out.)
# :::

# %% tags=["claim"]
def score_parts(scores):
    """Popularity, affinity and direction of scores (..., tokens, tokens)."""
    centred = measures.double_centered(scores)
    popularity = (scores - centred).mean(dim=-2, keepdim=True)
    popularity = popularity - popularity.mean(dim=-1, keepdim=True)
    affinity, direction = (centred + centred.mT) / 2, (centred - centred.mT) / 2
    both = {"affinity": affinity, "direction": direction}
    return {"popularity": popularity} | both


everything = scores_on_text(model)
parts = score_parts(everything)
together = sum(parts.values()).softmax(-1)
assert torch.allclose(together, everything.softmax(-1), atol=1e-5)
shares = {}
for name, part in {"nothing": 0.0, **parts}.items():
    weights = (everything - part)[0, :, 2].softmax(-1)
    shares[name] = measures.offset_profile(weights, (-1, 0, 1)).mean(dim=0)
before = {name: float(share[0]) for name, share in shares.items()}
assert min(before["nothing"], before["popularity"]) > 0.95
assert max(before["affinity"], before["direction"]) < 0.3
assert abs(shares["direction"][0] - shares["direction"][2]) < 0.1  # which side?
table = {name: share.numpy() for name, share in shares.items()}
pd.DataFrame(table, index=["previous token", "itself", "next token"]).T.round(2)

# %% [markdown]
# Without direction, what is left is *near*: the token itself, and both neighbours alike. Affinity knows how far,
# direction knows which side. Neither suffices alone, and popularity plays no part in this head.
#
# That is one head. For all 72, take each part out and ask how much of a row of attention moves (half the sum of absolute
# changes, 0 to 1). In the untrained model attention is close to uniform, so nothing in it weighs much: the null.

# %% mystnb={"figure": {"caption": "How much of a head's attention moves when one part of its scores is taken out, one dot a head. Popularity weighs most, direction least. The previous-token head is the dot far right: it needs affinity and direction.", "name": "fig-asymmetry-parts"}, "image": {"alt": "Four strips of dots from 0 to 1. Without popularity the dots centre near 0.42, without affinity near 0.32, without direction near 0.21 with one dot at 0.8; in the untrained model lies near 0.03."}} tags=["claim"]
def share_moved(scores, part):
    """Share of a row that moves without a part of the scores: (layers, heads)."""
    change = scores.softmax(-1) - (scores - part).softmax(-1)
    return change.abs().sum(-1).mean(dim=(1, 3)) / 2


null_scores = scores_on_text(null_models[0])
null_direction = score_parts(null_scores)["direction"]
moved = {f"without {k}": share_moved(everything, v) for k, v in parts.items()}
null_name = "without direction, untrained"
moved[null_name] = share_moved(null_scores, null_direction)
means = [float(values.mean()) for values in moved.values()]
assert means == sorted(means, reverse=True) and means[2] > 3 * means[3]
assert moved["without direction"][0, 2] > 0.7  # the previous-token head
plots.strips(
    moved,
    x="share of attention that moves",
    title="Direction is little for most heads, decisive for one",
    null=[null_name],
);

# %% [markdown]
# ## Tie the weights
#
# The note says: with $W_Q = W_K$ the graph is undirected. Tied weights (and biases) do make the *scores* symmetric.
# Then the softmax divides row $i$ by its own sum $D_i = \sum_j e^{S_{ij}}$.
#
# :::{div} predict
# **Predict.** Scores symmetric to the last bit. Is $P_{ij} = P_{ji}$?
# :::

# %%
small = torch.tensor([[2.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
assert torch.equal(small, small.T)
P = small.softmax(dim=-1)
print(f"by hand: P[0, 1] = {P[0, 1]:.2f}, P[1, 0] = {P[1, 0]:.2f}")

tied = scores_on_text(model, tie=1.0)
tied_scores = measures.relative_asymmetry(tied)
tied_weights = measures.relative_asymmetry(tied.softmax(-1))
asymmetry_of = {"scores": tied_scores.mean(), "weights": tied_weights.mean()}
print("tied: " + ", ".join(f"{k} {v:.2f}" for k, v in asymmetry_of.items()))

# Tied scores are symmetric in every head, weights in hardly any.
assert tied_scores.max() < 1e-5
assert (tied_weights.mean(dim=1) > 0.01).float().mean() > 0.9

# %% [markdown]
# What remains is a weaker symmetry. $D_i P_{ij} = e^{S_{ij}} = e^{S_{ji}} = D_j P_{ji}$: as much flows from $i$ to $j$ as
# back, once each token is weighted by $D_i$. A random walk with this property is a **reversible Markov chain**. This is
# the right sense of "undirected".

# %%
one = tied[2, 0, 0].double()
one = one - one.max()  # the same softmax, without overflow
row_sums = one.exp().sum(dim=-1)  # D_i
traffic = row_sums[:, None] * one.softmax(dim=-1)  # D_i P_ij
stationary = row_sums / row_sums.sum()
assert torch.allclose(traffic, traffic.T, atol=1e-5)
assert torch.allclose(stationary @ one.softmax(dim=-1), stationary, atol=1e-6)

# %% [markdown]
# Between trained and tied weights lies a straight line: $W_K(t) = (1-t)\,W_K + t\,W_Q$, biases alike. Walk along it and
# watch the symmetry of scores (double-centred) and of attention weights. The null lines are the untrained model.

# %% tags=["claim"]
rows = []
for share in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]:
    for who, ending in [(model, ""), (null_models[0], ", null")]:
        scores = scores_on_text(who, tie=share)
        centred = measures.double_centered(scores)
        versions = {"scores": centred, "weights": scores.softmax(-1)}
        for what, values in versions.items():
            by_head = measures.symmetry_score(values).mean(dim=1)
            spread = by_head.quantile(torch.tensor([0.1, 0.5, 0.9]), dim=1)
            for layer, found in enumerate(spread.T.tolist()):
                rows.append([what + ending, layer, share, *found])
columns = ["line", "layer", "t", "low", "median", "high"]
path = pd.DataFrame(rows, columns=columns)
medians = path.groupby(["t", "line"])["median"].mean()
start, end = medians[0.0], medians[1.0]
assert start["weights"] < start["scores"] < 0.6
assert end["weights"] < 0.99 < 0.9999 < end["scores"]

# %% tags=["hide-input"]
figures.curve_explorer(
    path,
    x="t",
    y="median",
    low="low",
    high="high",
    by="line",
    sliders=["layer"],
    start={"layer": 2},
    null=["scores, null", "weights, null"],
    at=0.0,
    title="Tied scores become symmetric, attention weights do not quite",
    x_label="t: from independent (0) to tied (1)",
    y_label="symmetry score",
    spread="the middle 80 % of the heads",
    y_range=(-0.2, 1.05),
    alt="Symmetry of scores and attention weights while W_K moves towards W_Q.",
)

# %% [markdown]
# :::{div} speaker-notes
# 6 minutes. Let the class find the layer in which weights stay least symmetric. Likely wrong answer: "tied means
# undirected, so P is symmetric". The 3 × 3 example settles it on a blackboard. To save time, cut the Markov chain.
# :::
#
# ## Which way does content move?
#
# The note draws an edge $i \to j$ for weight $P_{ij}$. That is where $i$ looks. To see where content goes, change the
# value of one token and see whose output changes.

# %%
values = torch.randn(5, 8, generator=generator)
step = torch.zeros(5, 8)
step[1] = 1.0  # another value for the word "key"
effect = (reads @ (values + step) - reads @ values).norm(dim=1) / step.norm()
assert torch.allclose(effect, reads[:, 1], atol=1e-6)  # P[i, 1] for token i
table = {"reads «key» with": reads[:, 1], "its output changes by": effect}
pd.DataFrame(table, index=sentence).round(2)

# %% [markdown]
# A change at $j$ reaches $i$ in proportion to $P_{ij}$. Attention reads $i \to j$; **content moves $j \to i$**. Where you
# draw information flow, draw the arrow from key to query.
#
# ## Where this breaks
#
# :::{div} breaks
# "Not symmetric" is a statement about scores. It does not say that a model *needs* its direction. Take one part of the
# scores out of every head of every layer, and compare the sentence embeddings with those of the whole model. The control
# *reverses* the direction: nothing is missing then but its sense.
# :::

# %%
def attend_with(share_of):
    """Attention with each part of the scores scaled by ``share_of[part]``."""

    def attend(module, queries, keys, values, attention_mask=None, **_):
        scores = queries @ keys.mT / queries.shape[-1] ** 0.5
        found = score_parts(scores)
        kept = sum(share_of[name] * part for name, part in found.items())
        return (kept.softmax(-1) @ values).transpose(1, 2), kept.softmax(-1)

    return attend


@torch.no_grad()
def embeddings(**changes):
    """Sentence embeddings (texts, width); ``changes`` scale parts of scores."""
    share_of = {"popularity": 1.0, "affinity": 1.0, "direction": 1.0} | changes
    AttentionInterface.register("score_parts", attend_with(share_of))
    model.set_attn_implementation("score_parts")
    mean = model(**batch).last_hidden_state.mean(dim=1)
    model.set_attn_implementation("sdpa")
    return mean / mean.norm(dim=-1, keepdim=True)


# %% mystnb={"figure": {"caption": "Sentence embeddings with one part of all scores taken out, against the whole model; one dot a passage. Without direction they stay close. Reversing the direction does more harm than removing it. Grey: uniform attention, and another passage.", "name": "fig-asymmetry-breaks"}, "image": {"alt": "Six strips of dots on a cosine axis. Without direction lies highest, near 0.9; without affinity near 0.8; direction reversed near 0.75; without popularity near 0.5; uniform attention and another passage lower, in grey."}} tags=["claim"]
whole = embeddings()
no_attention = embeddings(popularity=0.0, affinity=0.0, direction=0.0)
variants = {
    "without direction": embeddings(direction=0.0),
    "without affinity": embeddings(affinity=0.0),
    "direction reversed": embeddings(direction=-1.0),
    "without popularity": embeddings(popularity=0.0),
    "uniform attention": no_attention,
    "another passage": whole.roll(1, dims=0),
}
cosines = {
    name: (whole * other).sum(dim=-1) for name, other in variants.items()
}
no_direction, no_affinity, reverse, no_popularity = (
    float(cosines[name].mean()) for name in list(variants)[:4]
)
assert no_direction > 0.85
assert no_direction > no_affinity > no_popularity
assert reverse < no_direction - 0.1  # the sense of direction matters
plots.strips(
    cosines,
    x="cosine to the embedding of the whole model",
    title="Sentence embeddings survive without direction",
    null=["uniform attention", "another passage"],
);

# %% [markdown]
# A sentence embedding is an average over tokens; most of it can be had without knowing what stands before what. This says
# nothing about tasks in which order decides. And it is surgery on trained weights: a model *trained* without direction
# is another experiment.
#
# ## Since 2021
#
# - {cite:t}`saponati2025` explain the result of this chapter: bidirectional training pushes $W_Q W_K^\top$
#   towards symmetry, autoregressive training towards directional, column-dominant structure. They report that a symmetric
#   start improves encoder-only models. We measured the first half; the second needs a decoder.
# - {cite:t}`courtois2024` train BERT with a "symmetric" dot product with pairwise coefficients and report
#   GLUE 79.36 against 78.74, with 6 % fewer parameters.
# - Reformer {cite}`kitaev2020` shares one projection between queries and keys and, by the account of a community
#   reproduction, claims no loss. That reproduction, on enwik8, could not confirm it {cite}`reformer-reproduction2021`.
#
# ## Exercises
#
# ::::{div} exercise
# **Exercise 1.1** · difficulty 1/5 · about 5 minutes · needs "How symmetric is a trained head?"
#
# Write the symmetry score of a square matrix from its definition.
#
# :::{dropdown} Hint
# `matrix.mT` is the transpose.
# :::
# :::{dropdown} Second hint
# A squared norm is the sum of squared entries.
# :::
# ::::

# %%
def my_symmetry_score(matrix):
    """(‖symmetric part‖² − ‖antisymmetric part‖²) / ‖matrix‖², a number."""
    ### BEGIN SOLUTION
    even, odd = (matrix + matrix.mT) / 2, (matrix - matrix.mT) / 2
    squares = [part.square().sum() for part in (even, odd, matrix)]
    return float((squares[0] - squares[1]) / squares[2])
    ### END SOLUTION


def follows_the_definition(attempt):
    same, turn = torch.eye(2), torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    expected = {
        "I": (same, 1),
        "turn": (turn, -1),
        "I + turn": (same + turn, 0),
    }
    expected |= {"5 I": (5 * same, 1), "2 I + turn": (2 * same + turn, 0.6)}
    expected["head 0 of layer 0"] = (products[0, 0], float(trained[0, 0]))
    for name, (matrix, right) in expected.items():
        found = float(attempt(matrix))
        close = abs(found - right) < 1e-4
        assert close, (
            f"{name} scores {right:.2f}, not {found:.2f}: square norms"
        )


check("1.1", my_symmetry_score, follows_the_definition)

# %% [markdown]
# ::::{div} exercise
# **Exercise 1.2** · difficulty 2/5 · about 10 minutes · needs "When are scores symmetric?"
#
# Given $W_Q$, return a $W_K$ that is not a multiple of it and still makes the scores symmetric.
#
# :::{dropdown} Hint
# $W_Q W_K^\top$ must equal its transpose.
# :::
# :::{dropdown} Second hint
# Put a symmetric matrix between the two.
# :::
# ::::

# %%
def symmetric_partner(w_q):
    """w_q: (width, d_head). Returns w_k of the same shape."""
    ### BEGIN SOLUTION
    return w_q * torch.arange(1, w_q.shape[1] + 1)
    ### END SOLUTION


def makes_scores_symmetric(attempt):
    w_q = measures.query_key_weights(model)[0].w_q[0]
    w_k = torch.as_tensor(attempt(w_q.clone())).to(w_q.dtype)
    assert w_k.shape == w_q.shape, f"W_K needs the shape {tuple(w_q.shape)}"
    both = torch.stack([w_q.flatten(), w_k.flatten()])
    both = both / both.norm(dim=1, keepdim=True).clamp(min=1e-30)
    multiple = torch.linalg.matrix_rank(both) < 2
    assert not multiple, "your W_K is a multiple of W_Q: scale columns apart"
    left = float(measures.relative_asymmetry(w_q @ w_k.T))
    assert left < 1e-5, f"W_Q W_Kᵀ is still asymmetric: {left:.2f} is not 0"


check("1.2", symmetric_partner, makes_scores_symmetric)

# %% [markdown]
# ::::{div} exercise
# **Exercise 1.3** · difficulty 3/5 · about 10 minutes · needs "Tie the weights"
#
# For symmetric scores, return the stationary distribution of the attention weights (the row vector $\pi$ with
# $\pi P = \pi$), *without* an eigenvalue routine and without iterating.
#
# :::{dropdown} Hint
# Look for the quantity that balances $P_{ij}$ and $P_{ji}$.
# :::
# :::{dropdown} Second hint
# Large scores overflow in $e^S$.
# :::
# ::::

# %%
def stationary_distribution(scores):
    """scores: (tokens, tokens), symmetric. Returns (tokens,), summing to 1."""
    ### BEGIN SOLUTION
    return scores.logsumexp(dim=-1).softmax(dim=0)
    ### END SOLUTION


def stays_the_same_after_a_step(attempt):
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    for scores in (noise + noise.T, 300 * (noise + noise.T)):
        found = torch.as_tensor(attempt(scores)).double()
        assert found.shape == (6,), f"6 numbers, not shape {tuple(found.shape)}"
        assert found.isfinite().all(), "NaN or infinity: subtract the maximum"
        assert abs(found.sum() - 1) < 1e-6, f"sums to {found.sum():.3f}, not 1"
        after = found @ scores.softmax(dim=-1)
        same = torch.allclose(after, found, atol=1e-6)
        assert same, "π P is not π: try the row sums of e^S"


check("1.3", stationary_distribution, stays_the_same_after_a_step)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "A layer has W_K = −W_Q and no biases. What is true?",
    [
        (
            "Its attention weights are symmetric.",
            False,
            "Each row is divided by its own sum: P[i, j] / P[j, i] = D[j] / D[i].",
        ),
        (
            "Its scores are asymmetric, since the weights differ.",
            False,
            "Only the product counts, and −W_Q W_Qᵀ is symmetric.",
        ),
        (
            "Its scores are symmetric; its weights in general are not.",
            True,
            "And each token avoids what resembles it.",
        ),
        (
            "Nothing can be said without the tokens.",
            False,
            "A symmetric product makes scores symmetric for any tokens.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "P[3, 7] = 0.9. Which arrow shows the flow of content?",
    [
        (
            "7 → 3: token 3 receives the value of token 7.",
            True,
            "Row 3 is the query; its output is a mix of values.",
        ),
        (
            "3 → 7: token 3 sends its value to token 7.",
            False,
            "That is the direction of reading, not of flow.",
        ),
        (
            "Both, with weight 0.45 each.",
            False,
            "P[7, 3] is another number and may be 0.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "The raw scores of an untrained model have symmetry 0.15. What now?",
    [
        (
            "Report that initialisation favours symmetry.",
            False,
            "The weights score 0: the effect comes from the text.",
        ),
        (
            "Compare the trained model with 0.15 instead of 0.",
            False,
            "The common mean differs between models; remove it.",
        ),
        (
            "Use the softmax weights instead.",
            False,
            "Worse: near-uniform attention is symmetric for free.",
        ),
        (
            "Double-centre the scores and measure again.",
            True,
            "The common mean of all scores imitates symmetry.",
        ),
    ],
)

# %% [markdown]
# ## Verdicts
#
# What this notebook measured, claim by claim. C1.5, that some papers tie the weights, is a matter of reading: see
# *Since 2021*.

# %%
tied_measured = {
    "asymmetry of scores, tied": round(float(tied_scores.max()), 4),
    "asymmetry of weights, tied": round(float(tied_weights.mean()), 2),
}
trained_measured = {
    "mean symmetry score, trained": round(float(trained.mean()), 2),
    "mean symmetry score, untrained": round(float(null.mean()), 3),
    "heads that are symmetric": int((trained > 0.999).sum()),
}
flow_measured = {
    "a change at j reaches i by": "P[i, j]",
    "content moves": "from key to query",
}
counter_example = {
    "asymmetry of scores, W_K = −W_Q": round(asymmetry["W_K = −W_Q"], 6)
}
display(
    claims.record("C1.1", counter_example, "does not hold"),
    claims.record("C1.2", trained_measured, "holds"),
    claims.record("C1.3", flow_measured, "does not hold"),
    claims.record("C1.4", tied_measured, "holds with conditions"),
)

# %% [markdown]
# ## Takeaways
#
# 1. Scores are symmetric exactly when $W_Q W_K^\top$ is. Unequal weights do not decide it, and the softmax undoes it.
# 2. Training made this encoder *more* symmetric than chance. What asymmetry is left is popularity and direction.
# 3. A query reads from a key; content moves from the key to the query.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
