# %% [markdown]
# # Low rank: what it means and what Linformer does with it
#
# **The insight.** After the softmax, attention matrices often have spectra that fall fast. How fast depends on layer, head
# and measure, and part of it is the softmax itself. Linformer's linear cost comes from elsewhere: it shortens the text.
# ("The note" below is the course note whose claims this book checks: [evidence](../pages/evidence.md).)

# %% tags=["hide-input"]
import pandas as pd
import torch
from IPython.display import display
from torch.utils.flop_counter import FlopCounterMode

from utils import claims, figures, low_rank, measures, plots
from utils.exercises import check
from utils.models import load
from utils.models import untrained as without_training
from utils.rank_explorer import rank_explorer, truncation
from utils.sweeps import sweep

plots.use_style()
stored = sweep("low_rank")
cached = pd.DataFrame(stored["spectra"])
large = pd.DataFrame(stored["outputs"]).set_index("rule")["cosine"]
claims.card(5)

# %% [markdown]
# ## Objectives
#
# You know the singular values of a matrix and what attention computes
# ([prerequisites](../pages/prerequisites.md)). With this notebook in front of you, you will be able to
#
# - **compute** how many singular values an attention map needs, in two measures, and say which of them "90 % of the
#   information" means;
# - **compare** trained heads with four null models, and name the heads that are *not* low rank;
# - **write** Linformer's attention with the right shapes, and show why `K @ W` leaves the quadratic cost;
# - **judge** what truncation, pooling and random projections do to sentence embeddings, before and after training.
#
# Reading takes about 35 minutes, running about half a minute. Spectra of five texts of 512 tokens and trained projections
# are cached (`data/sweeps/low_rank.json`). One text of 512, three shorter ones, the outputs of 64 tokens and a shorter
# training run live.
#
# ## Three maps and their singular values
#
# Any matrix is a sum of simple ones, each "a column of numbers times a row of numbers". The singular values say how much
# each of them weighs. A map in which every query reads the same keys is *one* such product. A map in which every query
# reads another key needs all of them.

# %% mystnb={"figure": {"caption": "Three maps of 24 tokens and their singular values. Uniform attention needs one, the softmax of random queries and keys one large and a falling tail, a head that reads the token before (the first token reads the last) needs all 24, each as large as the first.", "name": "fig-lowrank-three"}, "image": {"alt": "Three square maps above three bar charts. Uniform: one flat pale map, one bar. Softmax of random Q and K: speckled map, one bar of height 1, a second half as high, then bars that fall slowly to 0. Shift by one: a diagonal and one pixel in the top right corner, 24 bars of equal height."}}
random = "random Q and K"  # "low-rank": its scores are, not the map
kinds = {"uniform": "uniform", random: "low-rank", "shift": "shift"}
small = {
    name: measures.null_maps(24, kind, d_head=8)[0]
    for name, kind in kinds.items()
}
figure, axes = plots.plt.subplots(2, 3, figsize=(6.8, 3.9))
for (name, weights), (top, bottom) in zip(small.items(), axes.T, strict=True):
    sigma = measures.spectrum(weights).values
    top.imshow(weights.sqrt(), cmap=plots.amounts(), vmin=0, vmax=1)
    top.set(title=name, xticks=[], yticks=[])
    bottom.bar(range(1, 25), sigma, color=plots.colour("query"))
    bottom.set(xlabel="number", ylim=(0, 1.3))
axes[0, 0].set_ylabel("query")
axes[1, 0].set_ylabel("singular value")
ranks = [int(measures.numerical_rank(weights)) for weights in small.values()]
assert ranks == [1, 24, 24]

# %% [markdown]
# ## Which rank, and how much is "90 %"?
#
# $$P = \sum_{i=1}^{n} \sigma_i\, a_i b_i^\top, \qquad \sigma_1 \ge \sigma_2 \ge \dots \ge \sigma_n \ge 0$$
#
# | symbol | in code | shape |
# |---|---|---|
# | $P = \mathrm{softmax}(QK^\top/\sqrt{d_h})$ | `maps` | $n \times n$, rows sum to 1 |
# | $\sigma_i$ | `sigma` | $n$ numbers |
# | $a_i$, $b_i$ | | $n$; the $a_i$ have length 1 and are at right angles, so are the $b_i$ |
# | $P_k$ = the first $k$ terms | `low_rank.truncated` | $n \times n$, rank $k$ |
# | $\sum_{i\le k}\sigma_i / \sum_i\sigma_i$ | `cumulative_spectrum(…, 1)` | a number for each $k$ |
# | $\sum_{i\le k}\sigma_i^2 / \sum_i\sigma_i^2$ | `cumulative_spectrum(…, 2)` | a number for each $k$ |
#
# $P_k$ is the closest matrix of rank $k$, and $\lVert P - P_k\rVert^2 = \sum_{i>k}\sigma_i^2$. So the share of
# $\sum\sigma^2$ is one minus the squared relative error. The share of $\sum\sigma$ is lower: one minus the relative error
# in another norm, the nuclear norm $\sum\sigma$. Linformer's figure 1 shows the "normalized cumulative singular value" at
# the 128th of 512 values (section 3, {cite:t}`wang2020`), by its name a share of $\sum\sigma$; the paper's text has no "90 %", and
# the note's "90 % of the information" could mean either share. So we always give both.
#
# A count before we measure. At $n = 512$ the matrix is 512 × 512 and has 512 singular values. Keep 128, and **384** are
# left over. The note's 640 is 768 − 128: the width of a model, which is no side of this matrix.
#
# ## The softmax raises the rank
#
# Scores $QK^\top$ of a head with $d_h = 32$ have rank 32 at most, however long the text. The softmax acts on each entry.
# The model is all-MiniLM-L6-v2 (72 heads), the text a window of 512 tokens out of the book's passages.
#
# :::{div} predict
# **Predict.** The scores have rank 32. The softmax squeezes each row into a distribution. Is the numerical rank of $P$
# (singular values above 10⁻⁵ of the greatest) below 32, about 32, or far above?
# :::

# %%
model, tokenizer = load("minilm")
ids = low_rank.token_windows(tokenizer, 512, 1)
heads = low_rank.heads_of_text(model, ids)
maps = torch.cat([low_rank.attention_weights(q, key) for q, key, _ in heads])
sigma = measures.spectrum(maps)  # of all 72 maps (layers, heads, 512, 512)
some = [q[0].double() @ key[0].double().mT for q, key, _ in heads[::5]]
before = measures.numerical_rank(torch.stack(some))
after = measures.numerical_rank(sigma)
print(f"scores of layers 0 and 5: rank {before.min()} to {before.max()}")
print(f"weights: rank above 256 of 512 in {(after > 256).sum()} of 72 heads")
assert before.max() <= 32 and after.min() > 300

# %% [markdown]
# Far above. In the sense of algebra the maps are *not* low rank: out of scores of rank 32 the softmax makes maps
# of rank above 300 of 512, in every head. The exponential acts entry by entry, and that does not keep a rank. "Low rank"
# here means that the singular values fall fast. Everything depends on how fast.
#
# ## Is that more than chance?
#
# Four null models, all with rows that sum to 1:
#
# - *shuffled*: the same head with the keys of each row in random order. Every row keeps its weights; what rows have in
#   common is gone;
# - *random queries and keys*: softmax of Gaussian $QK^\top$ with $d_h = 32$, as sharp as you like;
# - *untrained*: MiniLM's shape with fresh weights;
# - *shift*: a permutation, every singular value 1.
#
# :::{div} predict
# **Predict.** Share of $\sum\sigma$ in the first 128 of 512. Which of *shuffled*, *untrained* and *shift* has the highest
# share, higher than most trained heads? (Random queries and keys follow below: their share depends on the sharpness.)
# :::

# %%
def share(maps_or_sigma, power=1, k=128):
    """Share of Σσ (or Σσ²) in the first k singular values."""
    return measures.cumulative_spectrum(maps_or_sigma, power)[..., k - 1]


fresh = low_rank.heads_of_text(without_training(model), ids)[::5]
fresh = torch.cat([low_rank.attention_weights(q, key) for q, key, _ in fresh])
null_sigma = {
    "shuffled": measures.spectrum(measures.permuted_maps(maps)),
    "untrained": measures.spectrum(fresh),
    "shift": measures.spectrum(measures.null_maps(512, "shift")),
}
null_1 = {name: share(each) for name, each in null_sigma.items()}
null_2 = {name: share(each, 2) for name, each in null_sigma.items()}
one, two = share(sigma), share(sigma, 2)  # (layers, heads)
for name, values in {"trained": one, **null_1}.items():
    print(f"{name:10} Σσ at 128: mean {values.mean():.2f}", end=", ")
    print(f"from {values.min():.2f} to {values.max():.2f}")

# %% mystnb={"figure": {"caption": "Share of the first 128 of 512 singular values, one dot a head, bar: mean; line at 90 %. Left: sum of σ. Right: sum of σ². The last layer falls fastest. Grey: by sum of σ the untrained model lies above every trained head outside the last layer.", "name": "fig-lowrank-layers"}, "image": {"alt": "Two panels of dots for layers 0 to 5 and, in grey, shuffled, untrained and shift. Left: layers 0 to 4 spread from 0.37 to 0.96, layer 5 near 0.98, shuffled near 0.56, untrained near 0.97, shift 0.25. Right: most dots above 0.9."}} tags=["claim"]
# With Σσ most heads miss 90 % at 128, with Σσ² most reach it.
assert (one >= 0.9).sum() < 36 < 54 < (two >= 0.9).sum()
# The last layer falls fastest; without training maps fall faster than the rest.
assert one[5].min() > one[:5].mean(1).max() and one[:5].mean() < 0.9
assert null_1["untrained"].min() > one[:5].max()
# Five cached texts agree with this one.
of_layers = torch.tensor(cached["share_1"].tolist()).mean(1).view(-1, 6)
assert (of_layers - one.mean(1)).abs().max() < 0.1
figure, axes = plots.plt.subplots(1, 2, figsize=(7, 3.8), sharey=True)
both = {"Σσ": (one, null_1), "Σσ²": (two, null_2)}
for ax, (name, (values, nulls)) in zip(axes, both.items(), strict=True):
    groups = {f"layer {layer}": values[layer] for layer in range(6)} | nulls
    plots.strips(groups, x=f"share of {name} at 128", null=list(nulls), ax=ax)
    ax.axvline(0.9, color=plots.colour("text"), lw=0.8, zorder=0)
axes[0].set_title("90 % is a matter of layer, head and measure");

# %% [markdown]
# The untrained model wins. Its heads read nearly uniformly, and the uniform map has rank 1. **Low rank by itself is no
# sign of learning**: it is what attention has before it learns anything.
#
# So compare at equal sharpness. The entropy of a row says how many keys it reads. Below, each head stands beside random
# queries and keys of the same mean entropy (grey curves: the scale of the scores runs from soft to sharp). The second curve,
# *independent scores*, is the softmax of Gaussian numbers with no queries and keys behind them.

# %% mystnb={"figure": {"caption": "Each head at its sharpness (mean entropy of its rows over that of a uniform row). 64 of 72 have a faster spectrum than random queries and keys that are as sharp. The exceptions, lowest of all, are heads that look at a neighbour. Grey: random queries and keys and independent scores at every sharpness; grey dots at the far right: the untrained model.", "name": "fig-lowrank-entropy"}, "image": {"alt": "Scatter plot of 72 heads, entropy from 0 to 1 across, share of sigma from 0.3 to 1 upwards, most near 0.7 to 1. Two grey curves: random queries and keys near 0.65, rising at the right; independent scores near 0.5. Three labelled dots lie lowest."}} tags=["claim"]
sharpness = measures.normalized_entropy(maps).mean(-1)
of_untrained = measures.normalized_entropy(fresh).mean(-1)
grey, ax = plots.colour("null"), plots.plt.subplots(figsize=(6.5, 3.9))[1]
names = {"gaussian": "independent scores", "low-rank": "random Q and K"}
for kind, name in names.items():
    scales = (16, 8, 4, 2, 1, 0.5, 0.25, 0.1)  # from sharp to soft
    options = [{"scale": scale, "d_head": 32} for scale in scales]
    made = torch.cat([measures.null_maps(512, kind, **o) for o in options])
    x, y = measures.normalized_entropy(made).mean(-1), share(made)
    ax.plot(x, y, color=grey)
    ax.annotate(name, (0.6, float(y[3]) - 0.06), color=grey)
chance = torch.as_tensor(plots.np.interp(sharpness, x, y))  # random Q and K
above = one > chance
assert 0.8 * 72 < above.sum() < 72  # most heads, not all
of_chance = torch.as_tensor(plots.np.interp(of_untrained, x, y))
assert abs(null_1["untrained"] - of_chance).max() < 0.02  # near the curve
assert (one > null_1["shuffled"]).sum() > 0.9 * 72
ax.scatter(of_untrained, null_1["untrained"], s=9, color=grey)
ax.scatter(sharpness, one, s=18, color=plots.colour("query"), alpha=0.6, lw=0)
for each in one.flatten().argsort()[:3].tolist():
    at = float(sharpness.flatten()[each]), float(one.flatten()[each])
    ax.annotate(f"  layer {each // 12}, head {each % 12}", at, va="center")
ax.set(xlabel="mean entropy (1 = uniform)", ylabel="share of Σσ at 128")
ax.set_title(f"{above.sum()} of 72 heads fall faster than chance");

# %% [markdown]
# The claim survives its null model: most heads, not all, fall faster than chance at their sharpness. Where does it come
# from? Shuffling the keys within each row destroys it, in all but a few heads. So it lies in what rows *share*: many
# queries read the same keys. (The untrained model, at the far right, lies on the curve to within 0.02.)
#
# ## Does k stay the same when the text grows?
#
# Linformer is linear because $k$ does not grow with $n$. For the spectrum that is a question to measure. Take the same
# texts, cut to 64, 128, 256 and 512 tokens, and ask how many values hold 90 % of $\sum\sigma$.
#
# :::{div} predict
# **Predict.** At 64 tokens a head needs about 20 values. At 512 tokens: still 20, about 30 (as the logarithm would have
# it), about 60 (the root), or 160?
# :::

# %%
lengths = [64, 128, 256]
texts = low_rank.token_windows(tokenizer, 512, 3)
needed = {}  # n: (texts, layers, heads)
for length in lengths:
    found = low_rank.heads_of_text(model, texts[:, :length])
    found = [low_rank.attention_weights(q, key) for q, key, _ in found]
    needed[length] = measures.needed_rank(torch.stack(found, dim=1)).double()
needed[512] = torch.tensor(cached["needed"].tolist()).double().view(-1, 6, 12)
null_maps = [
    measures.null_maps(length, "low-rank", samples=3, d_head=32)
    for length in needed
]
null_needed = [measures.needed_rank(each).double() for each in null_maps]
ratio = {length: float(r.mean()) / length for length, r in needed.items()}
print("needed / n:", {length: round(r, 2) for length, r in ratio.items()})

# %% mystnb={"figure": {"caption": "Singular values that hold 90 % of their sum, against the length of the text (both axes logarithmic). The mean over heads grows in proportion to n, like the nulls; the last layer grows more slowly, but grows. Bands: smallest to largest text.", "name": "fig-lowrank-growth"}, "image": {"alt": "Four rising lines from n 64 to 512. Shift by one from 58 to 461, random queries and keys below it, mean of all heads from about 20 to 157, last layer from about 9 to 42."}} tags=["claim"]
curves = {
    "all heads": [found.mean((1, 2)) for found in needed.values()],
    "last layer": [found[:, 5].mean(1) for found in needed.values()],
    "random queries and keys": null_needed,
    "shift by one": [torch.tensor([0.9 * length]) for length in needed],
}
ax, lengths = plots.plt.subplots(figsize=(6.5, 3.8))[1], [*needed]
exponent = {}
for name, found in curves.items():
    middle = [float(values.mean()) for values in found]
    logs = plots.np.log(lengths), plots.np.log(middle)
    exponent[name] = float(plots.np.polyfit(*logs, 1)[0])
    roles = {"all heads": "query", "last layer": "key"}
    shade = plots.colour(roles.get(name, "null"))
    ax.plot(lengths, middle, color=shade, marker="o", ms=4)
    low, high = ([f(v) for v in found] for f in (torch.min, torch.max))
    ax.fill_between(lengths, low, high, color=shade, alpha=0.2, lw=0)
    ax.annotate(name, (540, middle[-1]), color=shade, va="center")
assert 0.9 < exponent["all heads"] < 1.05 and max(ratio.values()) < 0.4
assert 0.5 < exponent["last layer"] < 0.9
ax.set(xscale="log", yscale="log", xlim=(60, 1500), xlabel="tokens n")
ax.set_xticks(lengths, lengths)
ax.set_yticks([10, 30, 100, 300], [10, 30, 100, 300])
ax.minorticks_off()
ax.set_title("Values for 90 % of Σσ grow with the text");

# %% [markdown]
# The rank that is needed is about 0.3 $n$ at every length: no constant. A $k$ that served 512 tokens would not serve
# 65,536, as far as the spectrum decides. (We can only measure to 512 here, three texts, five at 512; and they are windows
# over several passages, so that a longer window also brings new topics.) If a constant $k$ works in Linformer, the decay of
# these spectra does not explain it.
#
# :::{div} speaker-notes
# 10 minutes to here. Likely wrong answers: "rank of P ≤ d_h" (true of the scores only), "the untrained model is at the
# bottom". Let the class read 0.3 off the figure before you say it. To save time, cut the entropy figure.
# :::
#
# ## `E @ K` is not `K @ W`
#
# Linformer does not decompose anything: to decompose $P$ you must have computed it, and that is the quadratic cost. It
# shortens keys and values *along the text*, before any score is computed:
#
# $$\bar K = E K, \quad \bar P = \mathrm{softmax}\!\left(\frac{Q \bar K^\top}{\sqrt{d_h}}\right), \quad
# \text{output} = \bar P\, F V$$
#
# | symbol | in code | shape |
# |---|---|---|
# | $E$, $F$ (learned) | `e`, `f` | $k \times n$ |
# | $\bar K = E K$, $F V$ | `e @ keys`, `f @ values` | $k \times d_h$ |
# | $\bar P$ | | $n \times k$ |
#
# The note writes `K_proj = K @ W_proj  # (n, 128)`. That is a matrix on the other side.
#
# :::{div} predict
# **Predict.** Count multiplications at $n = 65{,}536$ with `K @ W` (one head as wide as a 768 model, as the note has it:
# queries, keys and values of 128 instead of 768 numbers). How do they grow when the text doubles: twice or four times?
# :::

# %%
attend = {
    "full": lambda q, k, v, w, e: (q @ k.T).softmax(-1) @ v,
    "K @ W (note)": lambda q, k, v, w, e: (
        ((q @ w) @ (k @ w).T).softmax(-1) @ (v @ w)
    ),
    "E @ K (Linformer)": lambda q, k, v, w, e: (
        (q @ (e @ k).T).softmax(-1) @ (e @ v)
    ),
}


def operations(name, n, k=128, width=768):
    """Additions and multiplications in 10⁹, counted on empty tensors."""
    shapes = [(n, width)] * 3 + [(width, k), (k, n)]
    with FlopCounterMode(display=False) as counter:
        attend[name](*(torch.empty(each, device="meta") for each in shapes))
    return counter.get_total_flops() / 1e9


sizes = (512, 1024, 4096, 32768, 65536)
cost = {name: [operations(name, n) for n in sizes] for name in attend}
cost = pd.DataFrame(cost, index=[f"n = {n}" for n in sizes]).T
cost["doubling"] = cost["n = 65536"] / cost["n = 32768"]
assert cost["doubling"].round().tolist() == [4, 4, 2]
cost.round(2)

# %% [markdown]
# Thousands of millions of operations, counted, not timed. The note's line grows 3.93 times: its part in $n^2$, and a small
# linear part for `K @ W`. (The three lines are for counting only: one `e` for keys and values, no $\sqrt{d_h}$.)
#
# (At $n = 512$ and $k = 128$ Linformer halves them. Counts are
# not speed: the paper reports 1.5 times there, and 20 times at 65,536, where the count says far more {cite}`wang2020`, efficiency table.)
#
# ## Theorem 1: true of what?
#
# The paper's theorem 1 rests on the lemma of Johnson and Lindenstrauss (random projections nearly keep inner products): for
# a *given* vector $w$, some matrix of rank
# $\Theta(\log n)$ approximates $P w$ {cite}`wang2020`. The projection behind it is $P R^\top R$, with $R$ a $k \times n$ matrix of
# Gaussian numbers of variance $1/k$. No property of $P$ enters. So it cannot say that attention is special.
#
# How good is it? For one row $p_i$ of $P$ the error has mean 0 and, by the fourth moments of Gaussian numbers, the variance
#
# $$\frac{\lVert p_i\rVert^2\lVert w\rVert^2 + (p_i w)^2}{k}.$$
#
# The error shrinks as $1/\sqrt{k}$ whatever $n$: but on the scale of $\lVert p_i\rVert\,\lVert w\rVert$, not of the output
# $p_i w$. The paper prints theorem 1 with the scale of the output (its equation 3) and theorem 2 with the other (equation
# 8). Theorem 1 asks for $k = 5\log n/(\epsilon^2 - \epsilon^3)$, at 512 tokens 211 or more, so $k = 64$ below tests the scale, not
# the theorem's constants.
#
# :::{div} predict
# **Predict.** $w$ is a column of the head's values, $k = 64$. Is the error a small part of the output $P w$? And from 64
# to 512 tokens: does that part stay? (The table sums over all rows $p_i$ and all columns $w$ of $V$.)
# :::

# %% tags=["claim"]
norm, rows = torch.linalg.matrix_norm, {}
for length in (64, 128, 256, 512):
    found = low_rank.heads_of_text(model, texts[:1, :length])
    q, k_, v = (torch.cat(part).double() for part in zip(*found, strict=True))
    p, errors = low_rank.attention_weights(q, k_), []
    for seed in range(3):
        r = low_rank.gaussian_projection(64, length, seed=seed).double()
        errors.append(norm(p @ (r.T @ (r @ v)) - p @ v))
    error = torch.stack(errors).mean(0)
    out, scale = norm(p @ v), norm(p) * norm(v)
    formula = ((scale**2 + out**2) / 64).sqrt()
    rows[length] = [error / scale, formula / scale, error / out]
columns = ["error / (‖P‖ ‖V‖)", "by the formula", "error / output"]
means = [[float(ratio.median()) for ratio in row] for row in rows.values()]
lengths = [f"n = {n}" for n in rows]
promised = pd.DataFrame(means, index=lengths, columns=columns)
scaled, formula, relative = promised.to_numpy().T
# On the lemma's scale the error is near 1/√k = 0.125, as computed …
assert abs(scaled / formula - 1).max() < 0.1
assert abs(scaled - 0.125).max() < 0.03
# … yet it is as large as the output itself, or larger, and grows with the text.
assert relative.min() > 0.9 and relative[3] > 1.5 * relative[0]
promised.round(2)

# %% [markdown]
# The lemma keeps its word, an error near $1/\sqrt{k} = 0.125$ at every length, and the word is about another scale. As a
# part of the output the error does not stay: it is 1.00 at 64 tokens, 1.92 at 256 and 1.88 at 512. In attention the output
# is an average, in which values cancel; $\lVert p_i\rVert\,\lVert w\rVert$ does not cancel. At 512 tokens and $k = 64$ the typical error is larger than
# the output: answering zero would be better. The step from "for a given $w$" to "the map is low rank" is not in the
# theorem either: for one given $w$, $(P w)\, w^\top / \lVert w\rVert^2$ has rank 1 and makes no error at all.
#
# ## What the outputs lose
#
# Spectra are a means. What counts is what the model computes. Replace the attention of *all* 72 heads and compare sentence
# embeddings (mean of the last hidden states) with those of the whole model. 16 texts of 64 tokens.
#
# - **singular values**: the best $P_k$, and **top keys**: the $k$ greatest weights of each row. Both need all of $P$.
# - **$P R^\top R$**: theorem 1. **Gaussian $E$, $F$**: Linformer, untrained. **mean pooling**: $E = F$ = means of $k$
#   blocks of neighbours.
#
# :::{div} predict
# **Predict.** Which of the five are usable at $k = n/4$? Rank them before you run.
# :::

# %%
test = low_rank.token_windows(tokenizer, 64, 32)
with torch.no_grad():
    original = model(input_ids=test).last_hidden_state


@torch.no_grad()
def cosines(rule, texts=16):
    """Cosine of each text's embedding to that of the whole model."""
    with low_rank.replaced(model, rule):
        found = model(input_ids=test[:texts]).last_hidden_state.mean(1)
    return torch.cosine_similarity(found, original[:texts].mean(1))


def shortened(e, f):
    """The rule that attends to E K and F V, in every layer."""
    return lambda _, q, k_, v: low_rank.projected(q, k_, v, e, f)


p = low_rank.attention_weights
pool, all_alike = low_rank.mean_pooling(16, 64), low_rank.mean_pooling(1, 64)
r, f = (low_rank.gaussian_projection(16, 64, seed=seed) for seed in (0, 1))

# %% mystnb={"figure": {"caption": "Sentence embeddings with all attention maps approximated at k = 16 of 64, against the whole model; one dot a text, bar: mean. What needs the full map first is good; what would be cheap is not. Grey: attention that reads all keys alike, and another text.", "name": "fig-lowrank-outputs"}, "image": {"alt": "Strips of dots on a cosine axis. Singular values and top keys lie near 0.97, mean pooling near 0.6; in grey, uniform attention and another text near 0.4; below them P R R near 0.1 and Gaussian E and F near 0."}} tags=["claim"]
rules = {
    "singular values": lambda _, q, k_, v: low_rank.truncated(p(q, k_), 16) @ v,
    "top keys": lambda _, q, k_, v: low_rank.top_keys(p(q, k_), 16) @ v,
    "mean pooling": shortened(pool, pool),
    "uniform attention": shortened(all_alike, all_alike),
    "P Rᵀ R": lambda _, q, k_, v: (p(q, k_) @ r.T) @ (r @ v),
    "Gaussian E, F": shortened(r, f),
}
close = {name: cosines(rule) for name, rule in rules.items()}
whole = original[:16].mean(1)
close["another text"] = torch.cosine_similarity(whole, whole.roll(1, 0))
mean = {name: float(each.mean()) for name, each in close.items()}
assert min(mean["singular values"], mean["top keys"]) > 0.95
assert 0.45 < mean["mean pooling"] < 0.75 and mean["uniform attention"] < 0.6
assert max(mean["P Rᵀ R"], mean["Gaussian E, F"]) < mean["another text"]
# With 128 of 512 (cached, three texts) the order is the same.
assert large["singular values"] > 0.9 > large["mean pooling"] > 0.5
assert large[["Gaussian E and F", "P Rᵀ R"]].max() < 0.2
plots.strips(
    close,
    x="cosine to the whole model",
    title="Good approximations need the whole map first",
    null=["uniform attention", "another text"],
);

# %% [markdown]
# Three lessons. Truncation to a quarter is good, about as good as keeping a quarter of each row: *sparse* describes these
# maps as well as *low rank* does. Mean pooling keeps some of the meaning. The random projections of the theorem leave an
# embedding that is further from its own text than another text is. With 128 of 512 values (cached, three texts) the
# order is the same: 0.98 for singular values, 0.67 for mean pooling, below 0.1 for both random projections.
#
# Now see it happen in single heads. Lower the rank until the outputs suffer: where is that in a head of the last layer,
# and where in the head that reads the token before?

# %% tags=["claim"]
text = low_rank.heads_of_text(model, test[:1])
weights = [p(q, k_)[0] for q, k_, _ in text]
shown = {
    name: (weights[layer][head], text[layer][2][0, head])
    for name, layer, head in (
        ("layer 5, head 6", 5, 6),
        ("layer 0, head 2: the token before", 0, 2),
        ("layer 1, head 8: the token after", 1, 8),
        ("layer 2, head 7", 2, 7),
        ("layer 3, head 4", 3, 4),
    )
}
pixels, carried = shown["layer 5, head 6"]
shown["layer 5, head 6, shuffled"] = measures.permuted_maps(pixels), carried
at_8 = {name: truncation(*pair, k=8) for name, pair in shown.items()}
last_layer, token_before, *_, shuffled = at_8.values()
assert last_layer.error < 0.3 < 0.7 < token_before.error
assert last_layer.cosine > 0.9 > token_before.cosine
assert last_layer.one > shuffled.one
_, shift, *_, mixed = shown.values()
assert truncation(*shift, k=48).error > 0.4  # even at 48 of 64
assert truncation(*mixed, k=1).cosine > 0.8  # the average is enough
title = "Rank 8 of 64 is plenty for one head and ruins another"
alt = "A map at rank 8: nearly whole in layer 5, mostly lost in layer 0."
rank_explorer(shown, head="layer 5, head 6", rank=8, title=title, alt=alt)

# %% [markdown]
# The head of the last layer is nearly whole at rank 8 (error 7 %). The head that reads the token before has no such place:
# at rank 48 its error is still above 0.4. With 64 equal singular values it would be $\sqrt{1 - 48/64} = 0.5$.
#
# The shuffled map loses much (error 68 %) and its outputs little (cosine 0.93). Its rows share nothing but their average, and
# that average, one singular value, already gives the outputs their direction. So read error and cosine together.
#
# ## Train the projection
#
# Linformer learns $E$ and $F$. How far does that go with the rest of MiniLM frozen? One $E$ and one $F$ for each layer,
# shared by its heads, $n = 64$. First layer by layer: make the outputs of the layer's heads equal to those of full
# attention (squared error). Then all layers together, through the model, towards its last hidden states. 364 windows
# to train on, 32 others to judge.
#
# :::{div} predict
# **Predict.** $k = 16$ of 64. Mean pooling alone reaches about 0.57 (32 texts; 0.59 on the 16 above), the best maps of rank 16
# reach 0.97. Where does
# training end: near 0.6, near 0.8, or near 0.97? And does it matter whether it starts from noise?
# :::

# %% tags=["claim"]
windows = low_rank.token_windows(tokenizer, 64, 100, start=32)
train = low_rank.heads_of_text(model, windows)
pairs = [low_rank.fit_projection(each, pool, pool, steps=100) for each in train]
again = cosines(
    lambda layer, q, k_, v: low_rank.projected(q, k_, v, *pairs[layer]),
    texts=32,
)
trained = pd.json_normalize(stored["training"])
pooled = trained[(trained.k == 16) & (trained.start == "mean pooling")]
by_layer = pooled["layer by layer.cosine"].mean()
print(f"trained here, fewer texts and steps: {again.mean():.2f}", end=", ")
print(f"cached: {by_layer:.2f}")
assert abs(again.mean() - by_layer) < 0.1
assert again.mean() > mean["mean pooling"] + 0.05  # training helps

# %%
stages = ["untrained", "layer by layer", "then together"]
columns = {f"{stage}.cosine": stage for stage in stages}
curve = trained.rename(columns=columns)
curve = curve.melt(["start", "k"], stages, "stage", "cosine").dropna()
middle = curve.groupby(["k", "start", "stage"])["cosine"].mean()
for start in ("Gaussian", "mean pooling"):
    untrained, by_layer, together = (middle[16, start, s] for s in stages)
    # Most of the gain comes layer by layer, little from all layers together;
    # at k = 16 both starts end well below the best map of that rank.
    assert by_layer > untrained + 0.15 and abs(together - by_layer) < 0.03
    assert 0.7 < together < 0.82 < mean["singular values"]
curve["run"] = curve["start"] + ", " + curve["stage"]
figures.curve_explorer(
    curve[curve["stage"] != "then together"],
    x="k",
    y="cosine",
    by="run",
    title="Training helps, and ends well below the best map of rank k",
    x_label="k, of 64",
    y_label="cosine to the whole model",
    spread="three seeds",
    y_range=(-0.1, 1.0),
    at=16,
    alt="At k = 16 training ends near 0.75 from noise, 0.78 from pooling.",
)

# %% [markdown]
# Training is worth a great deal: at $k = 16$ from noise to about 0.75, from mean pooling to 0.78. Seeds hardly differ.
# Training all layers together moves the cosine by less than 0.03 (checked in the cell, not drawn). With $k = 32$ it is 0.79
# and 0.87: the start still shows. The best maps of the same rank are far above. One reason is in the shapes: $P_k$ is chosen
# anew for each head and each text, while $E$ is one matrix for all texts. It can weigh *places*, for instance [CLS], but not
# *words*. (Short training on 364 windows, one pair for all heads of a layer, everything else frozen: other choices may do
# better.)
#
# :::{div} speaker-notes
# 8 minutes for outputs and training. Expect "0.97, since it is trained". Ask what $E$ knows of the text it reads:
# nothing. To save time, cut the theorem and keep its table.
# :::
#
# ## Where this breaks
#
# :::{div} breaks
# A head that reads the token before has a shift for a map, and a shift has no small singular values. For each head of the
# text of 512 tokens, take the most frequent *offset* (key index minus query index) of a row's greatest weight, and how many
# rows share it. The more of them agree on a neighbour, the slower the spectrum should fall. (The glossary calls a head
# positional from 90 % of the rows; no head of this model gets there on this text.)
# :::

# %% mystnb={"figure": {"caption": "The more rows agree on one neighbour, the less of the map is in 128 of 512 values. The two heads with most rows at one offset, and one more, lie below softmax of independent scores (grey line).", "name": "fig-lowrank-breaks"}, "image": {"alt": "Scatter plot of heads: share of rows with one fixed offset across, share of sigma upwards. Most heads at the upper left; a falling tail of heads to the lower right that ends in layer 1 head 8 and layer 0 head 2 near 0.37."}} tags=["claim"]
offset, agree = measures.argmax_offset_share(maps)
neighbour = offset.abs() == 1
order = one.flatten().argsort()
assert neighbour[~above].all()  # all that fall more slowly than chance
assert agree.max() < 0.9  # no head is positional in the glossary's sense
assert set(order[:2].tolist()) == set(agree.flatten().argsort()[-2:].tolist())
noise = float(share(measures.null_maps(512, "gaussian")))  # independent scores
assert one.flatten()[order[1]] < noise
ax = plots.plt.subplots(figsize=(6.5, 3.7))[1]
for name, which in {"a neighbour": neighbour, "other": ~neighbour}.items():
    shade = plots.colour("positional" if name == "a neighbour" else "null")
    ax.scatter(agree[which], one[which], s=20, color=shade, alpha=0.7, lw=0)
shade, label = plots.colour("positional"), "commonest offset: a neighbour"
ax.annotate(label, (0.45, 0.75), color=shade)
ax.annotate("another offset", (0.12, 0.99), color=plots.colour("null"))
ax.axhline(noise, color=plots.colour("null"), lw=1)
ax.annotate(
    "independent noise", (0.02, noise + 0.01), color=plots.colour("null")
)
ax.set(xlabel="share of rows with the head's commonest offset")
ax.set(ylabel="share of Σσ at 128", ylim=(0.3, 1.05))
ax.set_title("Heads that look at one neighbour fall slowest");

# %% [markdown]
# These are the heads that most clearly *do* something (chapter 3), and they are the ones that a fixed low rank would cost.
#
# Two more limits follow from the shapes. $E$ has $n$ columns: it is made for one length. And each row of $E K$ mixes all
# tokens, later ones included: change the last token, and the first output changes. A decoder may not do that.

# %%
queries, keys, values = (part[:1] for part in train[0])
pool = low_rank.mean_pooling(16, 64)
try:
    low_rank.projected(
        queries[..., :60, :], keys[..., :60, :], values, pool, pool
    )
except ValueError as error:
    print(error)

later = torch.zeros_like(values)
later[..., -1, :] = 1.0  # another value for the last token
change = low_rank.projected(queries, keys, values + later, pool, pool)
change = change - low_rank.projected(queries, keys, values, pool, pool)
print(f"the first output changes by {change[0, 0, 0].abs().mean():.3f}")
assert change[0, :, 0].abs().min() > 0

# %% [markdown]
# ## Since 2021
#
# - Linformer's own result, of 2020, to compare with: mean over downstream tasks, in %, 92.25 for RoBERTa, 91.75 with
#   $k = 128$, 92.08 with $k = 256$, 92.30 with $k = 256$ and fully shared projections {cite}`wang2020`, downstream table. There the projections are part of the
#   model that is trained; here they were put into a finished one. Our 0.78 says nothing against their 92.
# - On long texts the comparison is less kind. Long Range Arena averages (accuracy in %): Transformer 54.39, BigBird 55.01,
#   Linformer 51.36, Performer 51.41 {cite}`tay2021` (abstract or transcript).
# - The opposite worry: {cite:t}`bhojanapalli2020` argue that a small $d_h$ limits *which* maps a head can express
#   (abstract). Exercise 5.3 is a counterweight: two dimensions can give full rank.
# - {cite:t}`lee2026` reports that the scores before the softmax (logits) of five language models reach 90 % of their
#   variance in 2 to 11 singular components (abstract). After the softmax, as you saw, is another matter.
# - FlashAttention {cite}`dao2022` removed the memory motive without approximating anything (abstract or transcript).
#
# ## Exercises
#
# ::::{div} exercise
# **Exercise 5.1** · difficulty 1/5 · about 5 minutes · needs "Which rank, and how much is 90 %?"
#
# Return the least $k$ whose first $k$ singular values hold the share `wanted` of the sum of *squares* $\sum\sigma^2$.
#
# :::{dropdown} Hint
# `cumsum` gives the sums of the first 1, 2, 3, … entries.
# :::
# :::{dropdown} Second hint
# Count how many of these sums are still too small, then add one.
# :::
# ::::

# %%
def needed_for(sigma, wanted):
    """sigma: (n,), falling. The least k with the share ``wanted`` of Σσ²."""
    ### BEGIN SOLUTION
    squares = sigma.square()
    return int((squares.cumsum(0) < wanted * squares.sum()).sum()) + 1
    ### END SOLUTION


def counts_the_values(attempt):
    cases = {
        "3, 1, 1": ([3.0, 1.0, 1.0], 0.9, 2),
        "1, 1, 1, 1": ([1.0] * 4, 0.6, 3),
    }
    for name, (given, wanted, right) in cases.items():
        found = int(attempt(torch.tensor(given, dtype=torch.float64), wanted))
        hint = "count again, or divide by the total"
        hint = "squares, not values?" if found == 3 else hint
        assert found == right, (
            f"σ = {name}, {wanted}: {right}, not {found}: {hint}"
        )
    right = int(measures.needed_rank(sigma, 0.9, power=2)[0, 0])
    found = int(attempt(sigma.values[0, 0], 0.9))
    assert found == right, f"head 0 of layer 0 needs {right}, not {found}"


check("5.1", needed_for, counts_the_values)

# %% [markdown]
# ::::{div} exercise
# **Exercise 5.2** · difficulty 2/5 · about 10 minutes · needs "`E @ K` is not `K @ W`"
#
# Write Linformer's attention. No `n × n` matrix may appear on the way: the check counts operations.
#
# :::{dropdown} Hint
# Write the shape behind each line: $E$ is $k \times n$, $K$ is $n \times d_h$.
# :::
# :::{dropdown} Second hint
# Keys are shortened by $E$, values by $F$; the queries stay.
# :::
# ::::

# %%
def my_linformer(queries, keys, values, e, f):
    """queries, keys, values: (n, d_head); e, f: (k, n). Returns (n, d_head)."""
    ### BEGIN SOLUTION
    scores = queries @ (e @ keys).T / queries.shape[-1] ** 0.5  # (n, k)
    return scores.softmax(-1) @ (f @ values)
    ### END SOLUTION


def shortens_the_text(attempt):
    q, key, v = (part[0, 0] for part in text[3])
    e, f = low_rank.mean_pooling(8, 64), low_rank.gaussian_projection(8, 64)
    with FlopCounterMode(display=False) as counter:
        found = attempt(q, key, v, e, f)
    assert found.shape == v.shape, f"(64, 32), not {tuple(found.shape)}"
    cases = {  # the last is right
        "E is for keys, F for values": (q, key, v, f, e),
        "F for values": (q, key, v, e, e),
        "divide the scores by √d_head": (q * 32**0.5, key, v, e, f),
        "": (q, key, v, e, f),
    }
    for hint, given in cases.items():
        same = found.allclose(low_rank.projected(*given), atol=1e-4)
        assert same == (not hint), hint or "softmax over k keys, F, √d_head?"
    assert counter.get_total_flops() < 2 * 64 * 64 * 32, "n × n on the way"


check("5.2", my_linformer, shortens_the_text)

# %% [markdown]
# ::::{div} exercise
# **Exercise 5.3** · difficulty 4/5 · about 15 minutes · needs "The softmax raises the rank"
#
# Scores of rank 2, a map of full rank: return queries and keys with *two* numbers each, so that every token reads itself
# (weight above one half), for 32 tokens.
#
# :::{dropdown} Hint
# Each token needs a direction of its own in the plane.
# :::
# :::{dropdown} Second hint
# Points on a circle; a large radius makes the softmax sharp.
# :::
# ::::

# %%
def two_dimensions(n):
    """Returns queries and keys, each (n, 2)."""
    ### BEGIN SOLUTION
    angle = torch.arange(n) * 2 * torch.pi / n
    points = 40.0 * torch.stack([angle.cos(), angle.sin()], dim=1)
    return points, points
    ### END SOLUTION


def reads_itself(attempt):
    queries, keys = attempt(32)
    assert queries.shape == keys.shape == (32, 2), (
        "two tensors of shape (32, 2)"
    )
    found = low_rank.attention_weights(queries.double(), keys.double())
    assert found.isfinite().all(), "NaN or infinity: the numbers are too large"
    least = float(found.diagonal().min())
    hint = "go sharper, or do two tokens share a direction?"
    assert least > 0.5, f"a token reads itself with {least:.2f}: {hint}"
    rank = int(measures.numerical_rank(found))
    assert rank == 32, f"the rank is {rank}"  # follows from the diagonal


check("5.3", two_dimensions, reads_itself)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "Scores have rank 32, n = 512. What can the rank of P be?",
    [
        (
            "At most 32.",
            False,
            "The softmax acts on entries; that does not keep rank.",
        ),
        ("At most 64.", False, "There is no such bound."),
        (
            "Anything from 1 to 512.",
            True,
            "Uniform rows give 1; most heads here have nearly 512.",
        ),
        ("Exactly 512.", False, "Uniform attention has rank 1."),
    ],
    keep_order=True,
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "A paper says: 128 of 512 singular values hold 95 %. What do you ask first?",
    [
        (
            "95 % of Σσ or of Σσ², and against which null model?",
            True,
            "Both choices move the number by tenths.",
        ),
        (
            "Whether the width was 768.",
            False,
            "The map is n × n; the width does not enter its size.",
        ),
        (
            "Whether the remaining 640 were tested.",
            False,
            "384 remain. 640 mixes up width and length.",
        ),
        (
            "Nothing: it proves that training found structure.",
            False,
            "An untrained model scores higher still.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "keys is n × d_head. Which line makes attention linear in n?",
    [
        (
            "`keys @ W`, W of shape d_head × 128",
            False,
            "Shorter features, still n keys: n² scores.",
        ),
        (
            "`E @ keys`, E of shape 128 × n",
            True,
            "128 keys are left: n × 128 scores.",
        ),
        (
            "`svd(softmax(q @ keys.T))`, cut to 128",
            False,
            "By then the n² map has been computed.",
        ),
        ("`keys[:, :128]`", False, "It cuts features, not tokens."),
    ],
    keep_order=True,
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "MiniLM is frozen, k = 16 of 64. What do E and F gain by training?",
    [
        (
            "Nothing: a finished model has no use for them.",
            False,
            "The cosine rises by more than 0.15 from either start.",
        ),
        ("All that rank 16 allows.", False, "E is one for all heads."),
        (
            "Only what a better start would give.",
            False,
            "Training from mean pooling still gains about 0.2.",
        ),
        (
            "Much, and they stay well below the best maps of rank 16.",
            True,
            "0.78 from mean pooling, against 0.97 with singular values.",
        ),
    ],
    keep_order=True,
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "Which head loses most when its map is cut to a quarter of the rank?",
    [
        (
            "One that reads [CLS] in every row.",
            False,
            "All rows alike: rank 1 is nearly enough.",
        ),
        ("One that reads all tokens alike.", False, "Its map has rank 1."),
        (
            "One that reads the token before.",
            True,
            "A shift has n equal singular values.",
        ),
        (
            "A head of the last layer.",
            False,
            "Here the last layer has the fastest spectra.",
        ),
    ],
    keep_order=True,
)

# %% [markdown]
# ## Verdicts
#
# What this notebook measured, claim by claim. In C5.2 the count is wrong. Dropping the 384 that are left costs the
# embeddings little on average, but it costs the slowest head more than half of its $\sum\sigma^2$.

# %%
first = {
    "mean share of Σσ at 128": round(float(one.mean()), 2),
    "heads with 90 % of Σσ at 128": int((one >= 0.9).sum()),
    "heads with 90 % of Σσ² at 128": int((two >= 0.9).sum()),
    "untrained model, share of Σσ": round(float(null_1["untrained"].mean()), 2),
    "values for 90 % of Σσ, over n": round(ratio[512], 2),
}
second = {
    "values left of 512": 384,
    "cosine without them, every head": round(
        float(large["singular values"]), 2
    ),
    "Σσ² kept by the slowest head": round(float(two.min()), 2),
}
third = {
    "what the SVD needs first": "the n × n map",
    "Linformer's operations when n doubles": "2 times",
}
fourth = {"K @ W, operations when n doubles": "4 times", "E @ K": "2 times"}
display(
    claims.record("C5.1", first, "holds with conditions"),
    claims.record("C5.2", second, "does not hold"),
    claims.record("C5.3", third, "does not hold"),
    claims.record("C5.4", fourth, "does not hold"),
)

# %% [markdown]
# ## Takeaways
#
# 1. Maps are nearly full rank; their spectra fall, faster than chance at equal sharpness, unevenly, and with a needed rank
#    that grows with the text. Say σ or σ², and show the null model.
# 2. Linformer shortens keys and values along the text with learned $E$ and $F$. It is not a decomposition, and not `K @ W`.
# 3. Cheap projections are bad until trained, and in a finished model training them alone stays well below truncation.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
