# %% [markdown]
# # Rank collapse
#
# **The insight.** Stack attention layers that read everything, and nothing else, and all tokens become the same row: the
# number of digits in which they agree triples with every layer. A skip connection turns this cliff into a slope. The MLP
# decides nothing, LayerNorm can do more than was first thought, and a mask changes the law itself.
#
# "The note" is the informal text whose claims this book tests. The verdicts on the card come from the literature, those at
# the end of the page from what we measured.

# %% tags=["hide-input"]
import pandas as pd
import torch
from IPython.display import display

from utils import claims, figures, low_rank, measures, plots
from utils import rank_collapse as rc
from utils.collapse_explorer import COMBINATIONS, collapse_explorer, plane
from utils.corpora import passages
from utils.exercises import check
from utils.models import load, untrained
from utils.pure_attention import bound, log_distance, pure_attention
from utils.random_stacks import random_stack, shared_stack, simplex_states
from utils.sweeps import sweep

plots.use_style()
stored = sweep("rank_collapse")


def decades(ax):
    """A vertical axis for log₁₀ of a residual: means on it are geometric."""
    ax.set(ylim=(-13, 2.5), yticks=range(-12, 1, 3))
    ax.yaxis.set_major_formatter("$10^{{{x:.0f}}}$")


claims.card(7)

# %% [markdown]
# ## Objectives
#
# You know matrix norms and what one Transformer layer computes ([prerequisites](../pages/prerequisites.md)). You will be
# able to
#
# - **derive** in four lines why attention alone is *cubic* in the distance between tokens, and name what breaks the law;
# - **take apart** a trained encoder, part by part, and tell what skip, MLP and LayerNorm each do to the residual;
# - **decompose** the output of a network into paths, exactly, and say how much the short ones carry;
# - **judge** sentences such as "the rank falls like $e^{-cn}$", "the MLP is required" or "LayerNorm is useless".
#
# Reading takes about 40 minutes, running about half a minute. Longer texts and more seeds are cached
# (`data/sweeps/rank_collapse.json`); MiniLM on 8 texts of 64 tokens, and some deep stacks, run live. Everything is
# computed in float64: tokens will agree in more than the 7 digits that float32 keeps.
#
# ## Tokens that fall together
#
# Attention replaces each token by an average of tokens. Averages of the same things are alike. Do it often enough, and
# nothing tells one token from another. Below is one sentence in all-MiniLM-L6-v2: first as the model is, then with *only*
# its attention, no skip connection, no MLP, no LayerNorm.

# %% mystnb={"figure": {"caption": "The tokens of one sentence before the first layer and after 1, 2 and 3 layers. Each point is a token; the middle is the mean token, and the size of the cloud is the residual, the distance to identical rows relative to the length of all. With attention alone the cloud is gone after 3 layers.", "name": "fig-rank-cloud"}, "image": {"alt": "Two rows of four scatter plots. Top, the whole model: four clouds of about the same size. Bottom, attention alone: the first cloud is as large as above, the second smaller, the third a small heap in the middle, the fourth a single dot."}} tags=["claim"]
model, tokenizer = load("minilm", dtype=torch.float64)
sentence = tokenizer(passages(1)[0], truncation=True, max_length=26)["input_ids"]
words = tokenizer.convert_ids_to_tokens(sentence)
one = rc.embedded(model, torch.tensor([sentence]))
alone = {"skip": False, "mlp": False, "norm": False}
clouds = {
    "whole model": rc.states(model, one)[:4, 0],
    "attention alone": rc.states(model, one, **alone)[:4, 0],
}
size = {name: measures.rank_residual(each) for name, each in clouds.items()}
assert size["whole model"].min() > 0.8 and size["attention alone"][3] < 1e-4
figure, axes = plots.plt.subplots(2, 4, figsize=(7, 3.9))
for row, (name, states) in zip(axes, clouds.items(), strict=True):
    for layer, (ax, points) in enumerate(zip(row, plane(states), strict=True)):
        ax.scatter(*points.T, s=12, color=plots.colour("query"), alpha=0.7, lw=0)
        ax.set(xlim=(-3, 3), ylim=(-3, 3), xticks=[], yticks=[], aspect="equal")
        ax.set_xlabel(f"residual {float(size[name][layer]):.1g}")
        ax.spines[:].set_visible(True)
        ax.set_title(f"after {layer}" if layer else "input", weight="normal")
    row[0].set_ylabel(name)
figure.suptitle("Attention alone makes all tokens one", weight="bold");

# %% [markdown]
# ## What exactly collapses
#
# Let $\bar x$ be the mean row of $X$ (all vectors here are rows), $\mathbf 1$ a column of ones, $\lVert\cdot\rVert$ of
# states the Frobenius norm. We measure
#
# $$\operatorname{res}(X) = X - \mathbf 1 \bar x, \qquad r(X) = \frac{\lVert \operatorname{res}(X) \rVert}{\lVert X \rVert} \in [0, 1].$$
#
# | symbol | in code | shape |
# |---|---|---|
# | $X$ | `hidden` | $n \times d$ |
# | $\operatorname{res}(X)$, the **deviations**: what tells tokens apart | `rc.apart(hidden)` | $n \times d$ |
# | $\lVert\operatorname{res}(X)\rVert$, the **distance** to identical rows | `rc.distance(hidden)` | a number |
# | $r$, the **residual**: the distance, relative to $\lVert X\rVert$ | `measures.rank_residual(hidden)` | a number |
# | $M = W_Q W_K^\top$, $W = W_V W_O$ (one head, of width $d_h$) | | $d \times d$ |
#
# (Layers are counted from 0, as everywhere in this book. Curves over 0 to 6 count layers *passed*: 0 is the input, 6 the
# output.)
#
# The residual is 0 if all tokens are the same row, near 1 if they share nothing. This is no rank. A matrix with a residual
# of $10^{-9}$ can have full rank in the sense of algebra; "rank collapse" says that it is *close* to a special matrix of
# rank 1, one with all rows equal.
# (Rows $v$ and $-v$ have rank 1, too, but residual 1. You will meet them under LayerNorm.)
#
# ## Why cubic
#
# Write each token as the mean row plus its deviation, $x_i = \bar x + u_i$. The score of query $i$ and key $j$, times
# $\sqrt{d_h}$, has four terms:
#
# $$\bar x M \bar x^\top + u_i M \bar x^\top + \bar x M u_j^\top + u_i M u_j^\top .$$
#
# The first two are the same for all keys of a row, so the softmax drops them. The third is the same for all queries: it gives
# all rows one common distribution, $p = \operatorname{softmax}_j(\bar x M u_j^\top/\sqrt{d_h})$. (Biases of queries and
# keys change these three only.) The last, $e_{ij} = u_i M u_j^\top/\sqrt{d_h}$, alone makes rows of $P$ differ, and it is
# of **second** order in the deviations. The output of a head is
#
# $$\sum_j P_{ij}\, x_j W = \underbrace{\bar x W + \textstyle\sum_j p_j\, u_j W}_{\text{the same for all } i}
# + \sum_j \underbrace{(P_{ij} - p_j)}_{\text{order 2}}\, \underbrace{u_j W}_{\text{order 1}} .$$
#
# So deviations come out in **third** order. One layer cubes the distance; $L$ layers raise it to the power $3^L$. The
# residual does the same as long as the common row keeps its size. That is the theorem of {cite:t}`dong2021`. For $H$ heads,
# with $\beta$ a bound on the weights and $\gamma$ a factor that depends on the attention entries (main theorem, read in a
# transcript), in the norm $\sqrt{\lVert\cdot\rVert_1 \lVert\cdot\rVert_\infty}$:
#
# $$\lVert \operatorname{res}(X_L) \rVert \le \left(\frac{4\gamma\beta H}{\sqrt{d_h}}\right)^{(3^L-1)/2} \lVert \operatorname{res}(X_0) \rVert^{3^L} .$$
#
# The derivation names its conditions. It needs that all queries read the same keys (no mask), that nothing else is added
# (no skip connection), and that $e_{ij}$ is small.
#
# :::{div} predict
# **Predict.** Take the states that layer 2 of MiniLM reads and shrink the deviations to a tenth. By which factor shrinks
# the distance of what comes out: 10, 100 or 1000? And if layer 2 has its LayerNorm? Its MLP? Its skip connection? A causal
# mask?
# :::

# %%
ids = low_rank.token_windows(tokenizer, 64, 8)  # 8 texts of 64 tokens
hidden = rc.embedded(model, ids)
reads = rc.states(model, hidden, layers=[0, 1])[-1]  # what layer 2 reads
common = reads.mean(-2, keepdim=True)
factors = torch.logspace(-3, 1, 17, dtype=torch.float64)
past = torch.ones(64, 64).tril().bool()
kinds = {
    "skip": {"skip": True},
    "causal mask": {"edit": rc.masked(past)},
    "MLP": {"mlp": True},
    "LayerNorm": {"norm": True},
    "alone": {},
}
comes_out = {}  # name: (factors, texts)
for name, change in kinds.items():
    options = {**alone, "layers": [2], **change}
    inputs = [common + factor * rc.apart(reads) for factor in factors]
    found = [rc.states(model, each, **options)[-1] for each in inputs]
    comes_out[name] = torch.stack([rc.distance(each) for each in found])
slopes = {n: float((f[4] / f[0]).log10().mean()) for n, f in comes_out.items()}
print("slope:", {name: round(slope, 2) for name, slope in slopes.items()})
tenth = {n: 10 ** (f[12] / f[8]).log10().mean() for n, f in comes_out.items()}
print("a tenth: by", {name: float(f"{by:.2g}") for name, by in tenth.items()})

# %% mystnb={"figure": {"caption": "Distance after layer 2, against the distance before (1: as in the model). Geometric mean of 8 texts. Attention alone, and with LayerNorm or MLP, has slope 3 wherever scores are small. A skip connection or a causal mask has slope 1. Dotted grey: slopes 3 and 1.", "name": "fig-rank-cubic"}, "image": {"alt": "Log-log plot over four decades. Two lines, attention alone and with MLP, lie on one another, a third, LayerNorm, a little above; they rise with slope 3 until they bend near 1. Beyond 1 LayerNorm is flat. Two dashed lines, skip and causal mask, rise with slope 1 and lie far above."}}
# Third order without skip and mask, first order with either.
cubic, linear = ("alone", "LayerNorm", "MLP"), ("skip", "causal mask")
assert all(abs(slopes[name] - 3) < 0.1 for name in cubic)
assert all(abs(slopes[name] - 1) < 0.1 for name in linear)
ax = plots.plt.subplots(figsize=(6.2, 3.6))[1]
label = {"skip": (2e-3, 0.7), "causal mask": (2e-3, 2e-3)}
label |= {"LayerNorm": (1.5e-3, 2e-5), "MLP": (4e-3, 3e-7), "alone": (4e-3, 1e-8)}
for index, (name, found) in enumerate(comes_out.items()):
    line = 10 ** found.log10().mean(1)
    shade = "k" if name == "alone" else f"C{index}"
    ax.plot(factors, line, color=shade, ls="--" if name in linear else "-")
    ax.annotate(name, label[name], color=shade)
for power, start in ((3, 1e-12), (1, 2.0)):
    guide = start * (factors / factors[0]) ** power
    ax.plot(factors, guide, ":", color=plots.colour("null"))
    at = (0.06, 30 * guide[7])
    ax.annotate(f"slope {power}", at, color=plots.colour("null"))
ax.set(xscale="log", yscale="log", ylim=(1e-13, 1e5))
ax.set(xlabel="distance before (model = 1)", ylabel="distance after")
ax.set_title("Attention cubes the distance between tokens");

# %% [markdown]
# By about 1000 for attention alone (910), with LayerNorm (810) or with MLP (1100); by 11 with a skip connection and by 17
# with a causal mask. Three things to read.
#
# *LayerNorm and MLP do not change the exponent.* Near identical rows both act on all tokens nearly alike, by one linear
# map. They change the constant.
#
# *A skip or a mask does.* The skip adds the input, which is of first order. With a causal mask each query averages over
# *other* keys, so the rows differ even if all scores are zero.
#
# *The law is about small scores.* The model itself works at 1, just where the lines begin to bend. Beyond, a saturated
# softmax reads one key, and what comes out is proportional to what goes in (with LayerNorm, which fixes the length of rows,
# the line is flat). So the theorem is about the end of the fall, not its beginning.
#
# ### A bound that does not bite at first
#
# Written with $b = 4\gamma\beta H/\sqrt{d_h}$, the right side of the theorem is
# $(b\,\lVert\operatorname{res}(X_0)\rVert^2)^{3^L/2}/\sqrt b$. It shrinks only if $b\,\lVert\operatorname{res}(X_0)\rVert^2
# < 1$. Is it, in a trained model? We do not have $\gamma$; so here is a bound of the same form that you can derive from the
# formula above. Let $\rho$ be the greatest length of a row of $\operatorname{res}(X)$; norms of $M$ and $W$ are spectral.
#
# 1. No $e_{ij}$ is larger than $s/2$ in size, with $s = 2\rho^2 \lVert M\rVert / \sqrt{d_h}$.
# 2. $P_{ij}/p_j = e^{e_{ij}} / \sum_k p_k e^{e_{ik}}$. Numerator and denominator lie between $e^{-s/2}$ and $e^{s/2}$, the
#    ratio between $e^{-s}$ and $e^s$. So $|P_{ij} - p_j| \le p_j (e^s - 1)$, and a row of $P$ differs from $p$ by at most
#    $e^s - 1$ in sum.
# 3. A row of the output is then at most $\lVert W\rVert\rho\,(e^s - 1)$ away from the common row, and twice that from the
#    *mean* row:
#
# $$\rho_\text{after} \le \sum_\text{heads} 2\, \lVert W \rVert\, \rho\, (e^s - 1) \approx \sum_\text{heads} \frac{4\, \lVert W \rVert \lVert M \rVert}{\sqrt{d_h}}\, \rho^3 \quad (s \text{ small}).$$
#
# :::{div} predict
# **Predict.** MiniLM, attention alone. In which layers is this bound below what went in: all, none, the later ones?
# :::

# %% tags=["claim"]
_, apart = pure_attention(model, hidden)  # exact below 1e-16, see the text
radius = apart.norm(dim=-1).amax((1, 2))  # (layers + 1): the worst token of 8 texts
pairs = zip(model.encoder.layer, radius[:-1].tolist(), strict=True)
bounds = [bound(layer, rho) for layer, rho in pairs]
bounds = torch.tensor(bounds, dtype=torch.float64)
bites = bounds < radius[:-1]
assert (radius[1:] <= bounds).all()
assert bites.tolist() == [False] * 3 + [True] * 3
rows = [radius[:-1], radius[1:], bounds]
columns = ["ρ before", "ρ after", "bound"]
table = pd.DataFrame(torch.stack(rows).T.numpy(), columns=columns)
table.rename_axis("layer").map("{:.1e}".format)

# %% [markdown]
# The later ones. In the first three layers the bound is above what went in, at first astronomically. Yet tokens fall together
# there, too, from 12 to 0.00005. **It is an upper bound**: where it does not bite it says nothing, neither collapse nor
# safety.
#
# (Rounding would end such a measurement at $10^{-16}$. `pure_attention` keeps the common row and what is own in two places,
# and computes $P_{ij} - p_j$ from $e_{ij}$ directly, so it can go on: below, to $10^{-161}$ in MiniLM and $10^{-228}$ in
# random stacks.)
#
# ## Digits that triple
#
# If $r$ is cubed by every layer, its logarithm triples: the number of digits in which all tokens agree, $-\log_{10} r$,
# grows like $3^L$. If the note were right, and $r$ fell like $e^{-cL}$, a layer would add a constant number of digits.
#
# :::{div} predict
# **Predict.** MiniLM, attention alone, has agreed in 1.4 digits after two layers and in 5.6 after three. After five: 8, 14,
# 54? And how many with a causal mask?
# :::

# %%
def digits(model, hidden):
    """−log₁₀ of the residual of attention alone, exactly: (layers + 1, texts)."""
    mean_row, own = pure_attention(model, hidden)
    return torch.linalg.matrix_norm(mean_row + own).log10() - log_distance(own)


def random_digits(scores):
    """The same for five random stacks whose scores are multiplied."""
    stacks = [random_stack(6, scores=scores, seed=seed) for seed in range(5)]
    noise = measures.null_states(64, 64)
    return torch.cat([digits(stack, noise) for stack in stacks], dim=1)


null = untrained(model)
masked = rc.states(model, hidden, **alone, edit=rc.masked(past))
agree = {
    "MiniLM": digits(model, hidden),
    "MiniLM, causal mask": -measures.rank_residual(masked).log10(),
    "random": random_digits(1),
    "random, scores × 4": random_digits(4),
    "random, scores × 64": random_digits(64),
    "MiniLM, untrained": digits(null, rc.embedded(null, ids))[:5],
}

# %% mystnb={"figure": {"caption": "Digits in which all tokens agree, by layers passed (logarithmic): mean of 8 texts, or of 5 random stacks, and range. Once tokens are close, attention alone triples them with every layer, in MiniLM and in random stacks, nearly two layers later where scores are 4 times as large. With a causal mask a layer of MiniLM adds about a tenth of a digit. With scores 64 times as large nothing collapses in 6 layers.", "name": "fig-rank-digits"}, "image": {"alt": "Log plot over layers 0 to 6. Four lines rise steeply and end with the slope of a dotted guide that triples per layer: MiniLM untrained, random stacks, MiniLM, and random stacks with scores times 4 about two layers later. Two lines flatten: MiniLM with causal mask near 0.8, scores times 64 near 0.07."}} tags=["claim"]
slope = {}  # of log residual on log residual a layer before
for name, each in agree.items():
    before, after = each[:-1].flatten(), each[1:].flatten()
    fits = before > (1 if "64" not in name else 0.01)
    if fits.any():
        slope[name] = plots.np.polyfit(before[fits], after[fits], 1)[0]
print({name: round(float(value), 1) for name, value in slope.items()})
for name in ("MiniLM", "random", "random, scores × 4"):
    assert abs(slope[name] - 3) < 0.2
assert slope["random, scores × 64"] < 1.5
grown = agree["MiniLM"].mean(1)
assert 45 < grown[5] < 65 and agree["MiniLM, causal mask"].max() < 1.5
ax = plots.plt.subplots(figsize=(6.5, 3.6))[1]
ax.set(yscale="log", ylim=(2e-3, 1e3), xlim=(-0.2, 8.4))
curves = {name: each.T for name, each in agree.items()}
early, grey = curves.pop("MiniLM, untrained").mean(0), plots.colour("null")
plots.layers(curves, y="digits", ax=ax)
ax.plot(early, color=grey, marker="o", ms=4)
ax.annotate("MiniLM, untrained", (2.8, 60), color=grey, ha="right")
ax.plot([3.5, 6], [80, 80 * 3**2.5], ":", color=grey)
ax.annotate("triples", (4.3, 300), color=grey, ha="right")
ax.set(xticks=range(7), xlabel="layers passed")
ax.set_title("Without a mask the digits triple");

# %% [markdown]
# 54 digits after five layers. Printed is the slope of a layer's log residual on that of the layer before: 3, the law of the
# theorem, in trained weights and in random ones. With scores four times as large the random stacks reach the law nearly two
# layers later; it is the same law. At 64 times the softmax reads single keys, the slope is near 1, and in six layers
# nothing collapses.
#
# With a causal mask the digits grow, after the first two layers, by about a tenth per layer. A constant number per layer
# *is* $e^{-cL}$. Four small steps are a first sign; the last figure, "Where this breaks", shows it over some 40 layers and
# twelve decades. So the note's formula fits a case that it does not name, for the residual, and not the one that it does.
#
# :::{div} speaker-notes
# 12 minutes to here. Have the class do the four terms of the score on paper; many may find "second order" and forget the
# factor $u_j W$. Likely wrong prediction: "LayerNorm rescales, so slope 1". To save time, cut the bound.
# :::
#
# ## MiniLM taken apart
#
# One layer is $X \leftarrow N_1(X + A(X))$, then $X \leftarrow N_2(X + F(X))$, with attention $A$, MLP $F$ and two
# LayerNorms. Three switches leave out both "$X +$", or $F$ with its norm, or both norms: eight combinations. With all parts
# on we must get the model's own hidden states; the cell checks that first.
#
# :::{div} predict
# **Predict.** Eight combinations, six layers. Which stay above one half to the end? Is the MLP enough without a skip? Is
# the skip enough without MLP?
# :::

# %%
with torch.no_grad():
    own = model(input_ids=ids, output_hidden_states=True).hidden_states
assert (rc.states(model, hidden) - torch.stack(own)).abs().max() < 1e-10
names = {}
for parts in COMBINATIONS:
    on = [n for n, p in zip(("skip", "MLP", "LN"), parts, strict=True) if p]
    names[parts] = " + ".join(on) or "attention alone"


def taken_apart(model, hidden):
    """Residual of all eight combinations: name → (layers + 1, texts)."""
    found = {}
    for (skip, mlp, norm), name in names.items():
        states = rc.states(model, hidden, skip=skip, mlp=mlp, norm=norm)
        found[name] = measures.rank_residual(states).clamp_min(1e-12)
    return found


trained = taken_apart(model, hidden)
fresh = taken_apart(null, rc.embedded(null, ids))
later = (trained["MLP + LN"] > trained["LN"]).sum(1).tolist()
print("MLP + LN lies above LN, of 8 texts, after 1 to 4 layers:", later[1:5])
shown = {n: (10 ** f.log10().mean(1)).tolist() for n, f in trained.items()}
shown = pd.DataFrame(shown).T.rename_axis("layers passed")
shown.map(lambda v: "< 1e-11" if v < 1e-11 else f"{v:.2g}")

# %% mystnb={"figure": {"caption": "Residual by layers passed, mean (right: geometric) and range of 8 texts. Left: with the skip connection all four stay above 0.3, at the end highest with LayerNorm. Right (logarithmic, not below 1e-12): without it all four collapse; MLP or LayerNorm delay that by a layer or two. Grey: MiniLM's shape with fresh weights, all parts or none.", "name": "fig-rank-parts"}, "image": {"alt": "Two panels over layers 0 to 6. Left, linear axis: four lines that start near 1 and end between 0.35 and 0.9, and a grey line near 0.8. Right, logarithmic axis: four lines that fall from 1 to below 1e-11 between layers 4 and 6, attention alone first, and a grey line that reaches it at layer 3."}} tags=["claim"]
with_skip = {n: each.T for n, each in trained.items() if "skip" in n}
without = {n: each.T for n, each in trained.items() if "skip" not in n}
assert min(float(each[:, 6].min()) for each in with_skip.values()) > 0.3
assert trained["skip + LN"][6].min() > 0.6  # the MLP is not required
no_norm = rc.distance(rc.states(model, hidden, norm=False))
assert no_norm[6].min() > 50 * no_norm[0].max()  # tokens moved apart, see text
assert max(float(each[:, 5].max()) for each in without.values()) < 1e-7
assert max(float(each[:, 4].max()) for each in without.values()) < 1e-3
assert later[2] > 6 > later[4] > 1 and (trained["skip + MLP"] < trained["skip"])[6].all()
for row in stored["combinations"][:8]:  # cached: 16 texts of 128 tokens
    live = trained[names[row["skip"], row["mlp"], row["norm"]]].mean(1)
    gap = live[:4].log10() - torch.tensor(row["mean"][:4]).log10()
    assert row["weights"] == "trained" and gap.abs().max() < 0.7
figure, axes = plots.plt.subplots(1, 2, figsize=(6.6, 3.5))
for ax, lines in zip(axes, (with_skip, without), strict=True):
    ax.set(ylim=(0, 1.02), xlim=(-0.2, 10.4))
    all_or_none = "attention alone" if "LN" in lines else "skip + MLP + LN"
    lines = {**lines, "fresh": fresh[all_or_none].T}
    if "LN" in lines:
        decades(ax)
        lines = {n: each.log10() for n, each in lines.items()}
    plots.layers(lines, y="", null=["fresh"], ax=ax)
    ax.set(xticks=range(7), xlabel="layers passed")
axes[0].set(ylabel="residual", title="With the skip")
axes[1].set_title("Without: all collapse");

# %% [markdown]
# (Means of the table are geometric, values below $10^{-12}$ counted as that: texts differ by many orders, with LayerNorm
# alone by more than eight after four layers.)
#
# **The skip connection decides.** With it, every combination stays above 0.3 (on longer texts, cached, above 0.25); without
# it, every one is below $10^{-3}$ after four layers and below $10^{-7}$ after five.
#
# **The MLP decides nothing.** It delays the fall where it is alone with attention (after three layers 0.012 instead of
# 0.0000024). Beside LayerNorm it has no steady effect: after one layer seven of eight texts lie a little lower with it
# (0.74 instead of 0.75), after two all eight higher (0.27 instead of 0.14), after three and four half higher, half lower.
# With a skip but no LayerNorm, the residual ends *lower* with it (0.35 instead of 0.51), with skip and LayerNorm higher
# (0.88 instead of 0.73). It neither rescues (MLP + LN collapses) nor is required (skip + LN). That answers C7.4, "the MLP
# restores dimensions". The paper's abstract credits skip connections *and* MLPs with stopping the degeneration; but in its
# figures pretrained BERT without skip, LayerNorm kept, collapses by layer 4 with MLP and by layer 5 without
# {cite}`dong2021`. There, too, the MLP beside LayerNorm does not rescue.
#
# **LayerNorm** delays by about a layer. But look at the left: with the skip, the model *without* LayerNorm falls to 0.35.
# Its tokens are more than 50 times as far apart as at the start, but what they share has grown faster still. LayerNorm
# would have kept that in check. "Useless" it is not.
#
# C7.2 speaks of depth 8. Without the skip, no variant of MiniLM needs more than five. The paper's full BERT has 0.31 at
# layer 12 (figures); MiniLM has 0.88 at its end. Different models, and a residual above one half is no law.
#
# What does such **surgery** mean? These weights were trained with all parts. Take one out and every layer reads what it has
# never seen: the states are out of distribution. The experiment shows what the *parts do to the residual*, not what a model
# trained without them would learn: {cite:t}`wang2025` train attention with skip connections, and no MLP, to near GPT-2
# (abstract or transcript).
#
# ## See it fall
#
# The same sentence, all eight combinations. Go through the layers without skip, as it opens. Then switch the skip on.

# %%
states_of = {
    parts: rc.states(
        model, one, skip=parts[0], mlp=parts[1], norm=parts[2]
    ).squeeze(1)
    for parts in COMBINATIONS
}
collapse_explorer(
    states_of,
    words,
    parts=(False, True, True),
    depth=3,
    title="Tokens of one sentence in MiniLM, with parts taken out",
    alt="Tokens of one sentence as points around their mean, after a chosen layer, and the residual by layer.",
)

# %% [markdown]
# ## At the start of training, and deep
#
# Grey in the figure with the two panels: without training the cliff is steeper still (residual 0.02 after *one* layer), and
# with the skip nothing moves. Is a skip connection then a guarantee? BERT starts with weights of standard deviation 0.02,
# so small that attention adds little to the stream. Take stacks of 48 layers, width 64, and choose the **gain**: 1 keeps
# the size of a row, BERT's start at MiniLM's width corresponds to $0.02\sqrt{384} = 0.39$ (in the attention). Or scale the
# **branches**, what $A$ and $F$ add to the stream. LayerNorm stands after the sum, as in BERT ("post-LN").
#
# :::{div} predict
# **Predict.** 48 layers with skip, MLP and LayerNorm at gain 1. Residual after 48 layers: 0.9, 0.1, or a millionth?
# :::

# %% mystnb={"figure": {"caption": "Residual over 48 layers without training; geometric mean and range of 3 seeds. At gain 1 the skip connection turns the cliff into a straight line, which still ends near a millionth. Small weights, or branches scaled by 1/√48, keep tokens apart. Grey: without skip.", "name": "fig-rank-deep"}, "image": {"alt": "Log plot over 48 layers. Two lines stay near 1. One falls in a straight line to about 1e-6 at layer 48. A grey line drops to 1e-12 within 5 layers."}}
options = {
    "gain 0.39": {"gain": 0.39},
    "branches / √48": {"branch": 48**-0.5},
    "gain 1": {},
    "no skip": {},
}
deep = {name: [] for name in options}
for seed in range(3):
    states = measures.null_states(64, 64, seed=seed)
    for name, each in options.items():
        stack = random_stack(48, **each, seed=seed)
        found = rc.states(stack, states, skip=name != "no skip")[:, 0]
        deep[name].append(measures.rank_residual(found).clamp_min(1e-12))
deep = {name: torch.stack(each).log10() for name, each in deep.items()}
kept = {name: 10 ** float(each[:, -1].mean()) for name, each in deep.items()}
assert kept["gain 0.39"] > 0.9 and kept["branches / √48"] > 0.8
assert 1e-8 < kept["gain 1"] < 1e-4 and deep["no skip"][:, 8].max() < -9
for row in stored["deep"]:  # five seeds, and MiniLM's shape, 24 layers
    at_24 = dict(zip(row["depths"], row["residual"], strict=True))[24]
    assert at_24 > 1e-4 if row["skip"] else at_24 < 1e-12
ax = plots.plt.subplots(figsize=(6.2, 3.4), subplot_kw={"xlim": (-1, 62)})[1]
decades(ax)
plots.layers(deep, y="residual", null=["no skip"], ax=ax)
ax.set(xticks=range(0, 49, 12), xlabel="layers passed")
ax.set_title("A skip makes a slope of the cliff");

# %% [markdown]
# A millionth, and on a straight line: with the skip at gain 1 each layer takes away a constant *factor*. There it is again,
# the note's $e^{-cL}$. {cite:t}`noci2022` report this: with skips the correlation of tokens still grows with depth before
# training, unless the branches are scaled by about $1/\sqrt L$ (abstract or transcript). Here scaled branches work, and so
# do small weights. The cached runs say the same: five seeds, and MiniLM's own shape with 24 fresh layers, which start
# small: with the skip the residual goes from 0.8 to 0.7. So: **cliff** without skip, **slope** with it, nearly a
# **plateau** over these depths if the branches are small. That is for post-LN. Most current models put the LayerNorm before
# the branch
# ("pre-LN"); we did not test them.
#
# :::{div} speaker-notes
# 10 minutes. "Skip connections prevent collapse" is what many may expect to hear; let the class find the gain. To save
# time, cut the comparison of gains.
# :::
#
# ## Paths
#
# Why does a skip help? Hold the attention weights at what they are for a text. Then attention is a linear map, and a stack
# with skip connections is a product
#
# $$X_L = (I + A_L) \cdots (I + A_2)(I + A_1)\, X_0 .$$
#
# Multiply out: each layer is either passed by or gone through. There are $\binom{L}{k} H^k$ **paths** through $k$ heads of
# $k$ layers. A network without skip has only the longest, $k = L$. LayerNorm can be held at the scale it measured, too.
# Then all parts add up to the output exactly: the paths, and a *rest* that biases bring. A part's share is $\langle
# \text{part}, \text{whole}\rangle / \lVert \text{whole} \rVert^2$. Shares sum to 1; one may be negative. We take it of
# $\operatorname{res}(X_L)$: of what tells tokens apart.
#
# :::{div} predict
# **Predict.** MiniLM with skip and LayerNorm, no MLP: of what tells tokens apart at the end, how much came along paths
# through no attention at all, or one? Of the nearly 5 million paths these are 73.
# :::

# %%
def by_length(model, norm):
    """Shares of what tells tokens apart, and residuals, by the length of paths."""
    start = rc.embedded(model, ids)
    paths, rest = rc.paths(model, start, norm=norm)
    parts = torch.cat([paths, rest[None]])
    output = rc.states(model, start, mlp=False, norm=norm)[-1]
    assert (parts.sum(0) - output).abs().max() < 1e-8  # the whole
    own = rc.share(rc.apart(parts), rc.apart(output))
    return own, measures.rank_residual(paths)


carried = {
    "with LayerNorm": by_length(model, True),
    "without LayerNorm": by_length(model, False),
    "untrained": by_length(null, True),
}
number = [plots.np.prod([12.0] * k) * c for k, c in enumerate((1, 6, 15, 20, 15, 6, 1))]
columns = {"paths": [f"{n:,.0f}" for n in number] + [""]}
for name, (own, residual) in carried.items():
    if name != "untrained":
        columns[f"share, {name}"] = own.mean(1).numpy().round(2) + 0.0
        columns[f"residual, {name}"] = [f"{r:.2f}" for r in residual.mean(1)] + [""]
lengths = pd.Index([*range(7), "rest"], name="length")
pd.DataFrame(columns, index=lengths)

# %% mystnb={"figure": {"caption": "Share of what tells tokens apart at the end, by the number of attention layers on the path; bars: mean of 8 texts, dots: texts. With LayerNorm paths of length 0 and 1 carry nearly all. Without it lengths 1 to 3 carry most. Grey: fresh weights, where length 0 carries all.", "name": "fig-rank-paths"}, "image": {"alt": "Bar chart over path lengths 0 to 6, three bars each. With LayerNorm: 0.8, 0.15, then next to nothing. Without: about 0.1, 0.2, 0.3, 0.2, 0.1, then nothing. Untrained, grey: 1, then nothing."}} tags=["claim"]
carried = {name: (own[:7], rest) for name, (own, rest) in carried.items()}
own, bare = (carried[f"{which} LayerNorm"][0] for which in ("with", "without"))
assert own[:2].sum(0).min() > 0.8 and 0.6 < own[0].mean() < 0.95
assert bare[:3].sum(0).mean() > 0.4 and bare[6].abs().max() < 0.05
assert carried["untrained"][0][0].min() > 0.99
ax = plots.plt.subplots(figsize=(6.5, 3.4))[1]
for index, (name, (own, _)) in enumerate(carried.items()):
    shade = plots.colour("null") if name == "untrained" else f"C{index}"
    where = plots.np.arange(7) + 0.27 * (index - 1)
    ax.bar(where, own.mean(1), width=0.25, color=shade, alpha=0.75, label=name)
    for each in own.T:
        ax.scatter(where, each, s=5, color=plots.colour("text"), lw=0, zorder=3)
ax.axhline(0, color=plots.colour("text"), lw=0.8)
ax.set(xlabel="attention layers on the path", ylabel="share")
ax.legend()
ax.set_title("Short paths keep tokens apart");

# %% [markdown]
# Nearly all of it: 96 % along 73 of the 4,826,809 paths. The longest paths, the only ones a stack without skip has, bring
# 0 %. Without LayerNorm the common part grows unchecked and the mix is longer, but not to the end.
#
# And does a path collapse? Without LayerNorm each more attention on the way lowers the residual of what it brings, to about
# 0.7 of it. With LayerNorm it falls, too, though not at every step. But mind the size: at length 6 it is 0.14, in a stack
# without skip below $10^{-11}$. The weights here are held from the *whole* network, where tokens differ. Held maps are
# linear, so a path loses a factor per layer. The cube needs more: without skip the *rows of a map* become equal to one
# another, as they are computed from states that are already alike. So the decomposition shows what *carries* the
# difference, not how fast a stack without skip falls. A path alone is no network that could be run. And the MLP is left out
# here; in the full model it writes to the stream as well.
#
# ## What sinks do
#
# In layers 1 to 4 a third of all attention or more rests on [CLS], an **attention sink** (printed below).
# {cite:t}`barbero2025` say that sinks limit over-mixing (abstract or transcript). That can be tested: take [CLS] out of the
# maps, change *one* token of a text, and see how far the *other* tokens move. Two ways to take it out: *rescale* what is
# left of each row to sum 1, so that the weight goes to ordinary tokens, or leave rows as they are, with less weight in sum.
# As a null model every second ordinary token goes, rescaled, but not the changed one. In layers 1 to 4 they hold 0.7 to 0.9
# of the weight of [CLS], in the others more than it.
#
# :::{div} predict
# **Predict.** Without the sink, do other tokens move more or less? Does it matter whether rows are rescaled?
# :::

# %%
no_cls, no_second = torch.ones(64), torch.ones(64)
no_cls[0], no_second[2:62:2] = 0, 0
edits = {
    "as it is": None,
    "no [CLS], rescaled": rc.masked(no_cls),
    "no [CLS], not rescaled": lambda _, weights: weights * no_cls,
    "every second out": rc.masked(no_second),
}
moved, kept_apart = {}, {}
for name, edit in edits.items():
    each = []
    for place in (15, 45):
        changed = ids.clone()
        changed[:, place] = ids.roll(1, 0)[:, place]  # the next text's word
        differ = (changed != ids).any(-1)
        each.append(rc.spread(model, ids[differ], changed[differ], edit=edit))
    moved[name] = torch.cat(each, dim=1).T  # (texts and places, layers + 1)
    for parts in ("whole", "no MLP"):
        found = rc.states(model, hidden, edit=edit, mlp=parts == "whole")
        found = measures.rank_residual(found[-1, :, 1:-1])
        kept_apart[name, parts] = float(found.mean())
table = pd.Series(kept_apart).unstack().round(2).loc[[*edits]]
table.rename_axis("residual at the end")

# %% mystnb={"figure": {"caption": "How far the other tokens move, relative to their length, when one token of the text is changed: mean over texts and places. Without [CLS] and with rows rescaled they move clearly further; if the weight is not handed on, no further. Grey: every second ordinary token out, rescaled; in layers 1 to 4 that is 0.7 to 0.9 of the weight of [CLS], at the end about a third of the effect.", "name": "fig-rank-sinks"}, "image": {"alt": "Four lines over layers 0 to 6. Two lie on one another and rise slowly to 0.07 at layer 5, then to 0.17. The line without CLS and rescaled lies above them from layer 2 on and reaches 0.25. A grey line starts highest and ends between, at 0.20."}} tags=["claim"]
states = rc.states(model, hidden)
found = zip(model.encoder.layer, states, strict=False)
found = [rc.maps(*each)[..., 1:-1, :].mean((0, 1, 2)) for each in found]
resting = torch.stack(found)  # (layers, keys): weight on each
second = resting[:, 2:62:2].sum(1)
print("on [CLS], by layer:", [round(v, 2) for v in resting[:, 0].tolist()])
print("every second token:", [round(v, 2) for v in second.tolist()])
assert resting[1:5, 0].min() > 0.3 and second[1:5].min() > 0.25
usual, more = (moved[n][:, 6] for n in ("as it is", "no [CLS], rescaled"))
ratio = {n: each[:, 6].mean() / usual.mean() for n, each in moved.items()}
print(f"further in {(more > usual).sum()} of {len(usual)} cases,", end=" ")
print(f"on average {more.mean():.2f} instead of {usual.mean():.2f}")
assert ratio["no [CLS], rescaled"] > 1.25 and (more > usual).double().mean() > 0.7
assert abs(ratio["no [CLS], not rescaled"] - 1) < 0.1
assert ratio["every second out"] < ratio["no [CLS], rescaled"] - 0.1
cached = {row["edit"]: row["moved"][6] for row in stored["sinks"][:4]}
assert cached["no [CLS], rows rescaled"] > 1.2 * cached["as it is"]
ax = plots.plt.subplots(figsize=(6.5, 3.4))[1]
ax.set(ylim=(0, 0.3), xlim=(-0.2, 8.9))
middle = {name: each.mean(0) for name, each in moved.items()}
plots.layers(middle, y="others move by", null=["every second out"], ax=ax)
ax.set(xticks=range(7), xlabel="layers passed")
ax.set_title("Without the sink, tokens mix more");

# %% [markdown]
# They move further: by 0.25 of their length instead of 0.17, in 13 of 16 cases. On longer texts everything moves less, and
# the effect is smaller
# (cached, 128 tokens: 0.121 instead of 0.095, 27 % more; here 44 %). Untrained, where no sink is, nothing changes. If the
# weight of [CLS] is *not* handed on to others, others move no further: what [CLS] says does not matter for that, only that
# weight rests there. The null model says how much of this is weight alone: every second ordinary token, which holds
# somewhat less of it in layers 1 to 4, has more effect in the first three layers and about a third of it at the end (0.20).
# This supports "sinks limit mixing", in one model, on technical prose, and not in every case.
#
# It does not make sinks the guard against collapse in the whole model, whose residual stays at 0.88. Without MLP it does
# fall, from 0.72 to 0.45 (not rescaled: 0.60), and here the null model stays where it was, at 0.71.
#
# ## LayerNorm, revisited
#
# Dong et al. dismiss LayerNorm: it scales rows, and a scaling can be absorbed in the constants (remark, read in a
# transcript). {cite:t}`wu2024a` object: with suitable value matrices attention with LayerNorm has stationary states of
# *any* rank, while for others, such as orthogonal ones, collapse persists (abstract or transcript; under which conditions,
# we have not read). A construction of ours, not theirs, shows how the first can be.
#
# Put the tokens in $g$ equal groups, one at each corner of a regular simplex: rank $g - 1$, and a mean row of 0. Choose
# corners that LayerNorm leaves as they are: mean 0 over features, length $\sqrt d$. Let $W_Q W_K^\top = c\,I$ and $W_V =
# I$. A token reads its own group with more weight than the others, so attention shortens each row, $x \mapsto a\,x$ with $a
# < 1$, and turns none. LayerNorm restores the length. So the state is stationary. Without LayerNorm rows shrink layer by
# layer; with them the scores, which are quadratic in the rows; at last everything is uniform, and the cubic law takes over.
#
# But $W_V = I$ *is* orthogonal. If collapse persists for orthogonal values, something else must decide. So we try a random
# rotation for $W_V$, and another start: the same corners plus a common row twice as long, so that all tokens point to one
# side.
#
# :::{div} predict
# **Predict.** No skip, no MLP, 48 layers, a start that is off by a thousandth. Do 32 tokens in 2, 8, 32 groups stay apart
# with LayerNorm? With a rotation for values? With all tokens on one side? With values times 0.9, with and without
# LayerNorm?
# :::

# %%
width, rows = 64, {}
one = torch.eye(width, dtype=torch.float64)  # the identity
turn = torch.linalg.qr(measures.null_states(width, width)[0]).Q
for groups in (2, 8, 32):
    corners = simplex_states(32, groups, width)
    step = rc.states(shared_stack(1, one), corners, skip=False, mlp=False)
    assert (step[1] - step[0]).abs().max() < 1e-9  # stationary
    near = corners + 1e-3 * measures.null_states(32, width, seed=1)
    aside = near + 2 * simplex_states(2, 2, width, seed=2)[:, :1]

    def last(value, scores=1.0, norm=True, start=near):
        stack = shared_stack(48, value, scores=scores)
        found = rc.states(stack, start, skip=False, mlp=False, norm=norm)[-1, 0]
        rank = int(measures.numerical_rank(found, 0.01))
        return float(measures.rank_residual(found)), rank

    rows[groups] = {"LN": last(one), "LN, values rotate": last(turn)}
    rows[groups]["LN, on one side"] = last(one, start=aside)
    rows[groups]["LN, values rotate, on one side"] = last(turn, start=aside)
    rows[groups] |= {"LN, scores / 4": last(one, 0.25), "LN, values × 0.9": last(0.9 * one)}
    rows[groups] |= {"no LN": last(one, norm=False)}
    rows[groups]["no LN, values × 0.9"] = last(0.9 * one, norm=False)
both = pd.DataFrame(rows).rename_axis("residual · rank").rename_axis("groups", axis=1)
both.map(lambda pair: f"{max(pair[0], 1e-12):.1g} · {pair[1]}")

# %%
kept, ranks = both.map(lambda pair: pair[0]).T, both.map(lambda pair: pair[1]).T
# LayerNorm alone keeps any rank here, whether values rotate or not.
for name in ("LN", "LN, values rotate", "LN, values × 0.9"):
    assert ranks[name].tolist() == [1, 7, 31] and kept[name].min() > 0.99
assert kept["no LN, values × 0.9"].max() < 1e-9
# It takes the right start and the right scores, or all or most is lost.
for name in ("LN, on one side", "LN, values rotate, on one side"):
    assert kept[name].max() < 1e-9
assert kept["LN, scores / 4"][2] > 0.99 and kept["LN, scores / 4"][32] < 1e-9

# %% [markdown]
# ($10^{-12}$ stands for that or less. Two groups, at $v$ and $-v$, have rank 1 but residual 1.)
#
# With these weights LayerNorm keeps ranks 1, 7 and 31 (singular values above 1 % of the largest) for 48 layers, without
# skip and without MLP. "LayerNorm is useless" is refuted by an example. It holds whether values rotate or not, and also
# when they shrink by a tenth per layer. Without LayerNorm values that shrink lose everything; values $I$ lose 32 groups
# within 48 layers, while 2 and 8 groups fade too slowly to be lost by then.
#
# The example needs a *start* around 0, and scores that are *sharp* enough. With all tokens on one side everything
# collapses, with both orthogonal matrices: one way in which collapse persists for orthogonal values. At a quarter of the
# scores only two groups survive. And in MiniLM's own weights LayerNorm only delays.
#
# ## Where this breaks
#
# :::{div} breaks
# The derivation asked that all queries read the same keys. Give them different keys: a window of 8 or 2 tokens to each
# side, still attention alone: no skip, no MLP, no LayerNorm. Our own test for the insight was: it is falsified if a stack
# without skip keeps its residual above 0.5, or if the slope is near 1.
# :::

# %% mystnb={"figure": {"caption": "Attention alone, without skip connection, MLP and LayerNorm, by what a query may read: residual in MiniLM (left, 8 texts) and in random stacks of 96 layers (right, three stacks); geometric mean and range, not below 1e-12. A causal mask makes the fall exponential. A window slows it, the narrower the more.", "name": "fig-rank-masks"}, "image": {"alt": "Two log plots. Left, 6 layers: reading everything falls to the floor, 1e-12; causal ends near 0.2; windows of 8 and 2 stay near 0.55 and 0.8. Right, 96 layers: everything falls to the floor in 4 layers; causal falls in a straight line and reaches it near layer 45; the window of 8 sinks to 0.08 with a wide band, the window of 2 to 0.6."}} tags=["claim"]
offset = torch.arange(64) - torch.arange(64)[:, None]
may_read = {f"window of {k}": offset.abs() <= k for k in (2, 8)}
may_read |= {"causal": offset <= 0, "everything": offset.abs() >= 0}
start = [measures.null_states(64, 64, seed=seed) for seed in range(3)]
stacks = [(random_stack(96, seed=seed), x) for seed, x in enumerate(start)]
figure, axes = plots.plt.subplots(1, 2, figsize=(6.6, 3.4), sharey=True)
ends = []  # of MiniLM and of the stacks: geometric mean after each layer
for ax, nets in zip(axes, [[(model, hidden)], stacks], strict=True):
    found = {}
    for name, allowed in may_read.items():
        each = [rc.states(*net, **alone, edit=rc.masked(allowed)) for net in nets]
        found[name] = measures.rank_residual(torch.cat(each, 1)).clamp_min(1e-12).log10().T
    ends.append({name: 10 ** each.mean(0) for name, each in found.items()})
    decades(ax)
    plots.layers(found, y="", null=["everything"], ax=ax)
    end = found[name].shape[1] - 1
    ax.set(xlim=(-0.2, 1.75 * end), xticks=range(0, end + 1, 1 if end < 9 else 24))
    ax.set_xlabel("layers passed")
for name in ("window of 2", "window of 8"):
    values = ends[0][name][6], *ends[1][name][[24, 96]], *10 ** found[name][:, 96]
    print(name, [round(float(v), 2) for v in values])
assert ends[0]["window of 2"][6] > 0.6 and ends[0]["everything"][6] < 1e-9
assert ends[1]["window of 2"][24] > 0.5 and 1e-8 < ends[1]["causal"][24] < 1e-4
axes[0].set(ylabel="residual", title="A window slows the fall")
axes[1].set_title("96 random layers", weight="normal");

# %% [markdown]
# (Printed: residual after MiniLM's six layers, after 24 and 96 random ones, and for each of the three stacks after 96.)
#
# Both have happened: with a window of 2 the residual is 0.77 after MiniLM's six layers and 0.76 after 24 random ones, and
# with a causal mask the slope is 1. So by the test that we set ourselves the short wording, "attention without skip
# collapses doubly exponentially", is **falsified**. That a window *ends* the fall is not shown: after 96 random layers the
# window of 8 is down to 0.08 (0.01 to 0.4 in the three stacks), the window of 2 to 0.6 (0.3 to 1.0). {cite:t}`wu2024a`
# prove the general form: with masks collapse is exponential, and local masks slow it (abstract). A decoder, with its causal
# mask, does not fall under the cubic law at all.
#
# A mask is not the only exception. Among stacks that read everything, the one built for LayerNorm keeps a residual of 1,
# and with scores 64 times as large the slope was 1 and tokens agreed in 0.07 digits after six layers. What survives:
# attention that reads *everything*, and nothing else, collapses doubly exponentially once scores are small.
#
# The *measure* breaks, too. A large residual does not say that a state still holds what a task needs. And skip + MLP
# without LayerNorm had 0.35 although its tokens had moved apart, because what they share had grown more. Read the residual
# as a warning when it is tiny, and as little else.
#
# ## Since 2021
#
# - {cite:t}`noci2022`: with skips, correlation of tokens still grows with depth before training unless branches are scaled
#   by about $1/\sqrt L$; collapse makes the gradients of queries and keys vanish (abstract or transcript). You saw the
#   first half.
# - {cite:t}`wu2024a`: masks and LayerNorm change the picture (abstract or transcript). You saw both.
# - {cite:t}`giorlandino2025`: one theory of rank collapse and of entropy collapse, the softmax that saturates (abstract).
#   In our first log-log plot they are the left end and the right.
# - {cite:t}`barbero2025`: sinks limit over-mixing (abstract or transcript). Supported in MiniLM.
# - {cite:t}`wang2025`: attention with skip connections and no MLP, trained to near GPT-2 (abstract or transcript). The MLP
#   is not required.
#
# ## Exercises
#
# ::::{div} exercise
# **Exercise 7.1** · difficulty 1/5 · about 5 minutes · needs "What exactly collapses"
#
# Return the residual $r(X)$ of one text.
#
# :::{dropdown} Hint
# The mean row is the mean over *tokens*.
# :::
# :::{dropdown} Second hint
# `x.norm()` of a matrix is its Frobenius norm.
# :::
# ::::


# %%
def residual(x):
    """x: (tokens, width). Returns ‖X − 1x̄‖ / ‖X‖, a number."""
    ### BEGIN SOLUTION
    return float((x - x.mean(0)).norm() / x.norm())
    ### END SOLUTION


def measures_the_distance(attempt):
    x = measures.null_states(6, 4, seed=71)[0] + 1
    right, found = float(measures.rank_residual(x)), float(attempt(x.clone()))
    own = rc.apart(x)
    wrong = {
        "the mean row is a mean over tokens, not over features": (x - x.mean(1, keepdim=True)).norm() / x.norm(),
        "that is the distance: divide by the norm of X": own.norm(),
        "the norm, not its square": (own.norm() / x.norm()) ** 2,
        "subtract the mean row, not one mean number": (x - x.mean()).norm() / x.norm(),
    }
    for hint, value in wrong.items():
        assert abs(found - float(value)) > 1e-6, hint
    assert abs(found - right) < 1e-6, f"{right:.3f} expected, not {found:.3f}"
    same = torch.ones(3, 1, dtype=torch.float64) * x[0]
    assert abs(float(attempt(same))) < 1e-9, "identical rows have residual 0"


check("7.1", residual, measures_the_distance)

# %% [markdown]
# ::::{div} exercise
# **Exercise 7.2** · difficulty 2/5 · about 10 minutes · needs "MiniLM taken apart"
#
# Write one layer with its three switches. `attention`, `feed_forward`, `norm_1` and `norm_2` are functions of a state.
#
# :::{dropdown} Hint
# Attention block first, with its skip and its norm; the MLP block reads what comes out of it.
# :::
# :::{dropdown} Second hint
# The switches do not depend on each other: without skip, a block's output still goes through its norm.
# :::
# ::::


# %%
def one_layer(x, attention, feed_forward, norm_1, norm_2, skip, mlp, norm):
    """x: (texts, n, width). Returns the state after the layer."""
    ### BEGIN SOLUTION
    for block, after in ((attention, norm_1), (feed_forward, norm_2))[: 1 + mlp]:
        x = x + block(x) if skip else block(x)
        x = after(x) if norm else x
    return x
    ### END SOLUTION


@torch.no_grad()
def builds_the_layer(attempt):
    x, parts = hidden[:2, :16], rc.blocks(model.encoder.layer[0])
    hints = {(0, 0, 1): "attention, then norm_1; norm_2 goes with the MLP"}
    hints[0, 1, 1] = "each norm comes after its block, skip or not"
    hints[1, 1, 0] = "the MLP reads and adds to what attention left"
    for switches in [*hints, *COMBINATIONS]:
        on = dict(zip(("skip", "mlp", "norm"), switches, strict=True))
        right = rc.states(model, x, layers=[0], **on)[-1]
        hint = f"wrong with {on}: {hints.get(switches, 'look again')}"
        assert attempt(x.clone(), *parts, **on).allclose(right), hint


check("7.2", one_layer, builds_the_layer)

# %% [markdown]
# ::::{div} exercise
# **Exercise 7.3** · difficulty 3/5 · about 15 minutes · needs "Paths"
#
# Split the output of $(I + A_L) \cdots (I + A_1)\, x$ by the length of the paths, without going through all $2^L$ of them.
# `maps` is the list $A_1, \dots, A_L$.
#
# :::{dropdown} Hint
# Keep a list: what has come along paths of length 0, 1, 2, … so far. What does one more layer do to it?
# :::
# :::{dropdown} Second hint
# A path of length $k$ either passes the new layer by or goes through it; how long was it before? Mind not to use a part
# that is already new.
# :::
# ::::


# %%
def split_by_length(x, maps):
    """x: (d,); maps: L matrices (d, d). Returns L + 1 vectors, by path length."""
    ### BEGIN SOLUTION
    parts = [x, *(0 * x for _ in maps)]
    for a in maps:
        for k in range(len(maps), 0, -1):
            parts[k] = parts[k] + a @ parts[k - 1]
    return parts
    ### END SOLUTION


def counts_paths(attempt):
    maps = a, b, c = [*measures.null_states(3, 3, samples=3, seed=73)]
    found = attempt(x := torch.ones(3).double(), [*maps])
    assert len(found) == 4, f"lengths 0 to 3 are 4 parts, not {len(found)}"
    assert found[0].allclose(x), "length 0 goes through nothing: it is x"
    assert found[1].allclose((a + b + c) @ x), "length 1: all A x, summed"
    turned = (a @ (b + c) + b @ c) @ x
    assert not found[2].allclose(turned), "layer 1 comes first: A_2 A_1 x"
    right, hint = (b @ a + c @ (a + b)) @ x, "no path passes a layer twice"
    assert found[2].allclose(right), f"length 2: {hint}, use the old parts"
    assert found[3].allclose(c @ b @ a @ x), "length 3 is A_3 A_2 A_1 x"


check("7.3", split_by_length, counts_paths)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "In layers 0 to 2 of MiniLM the bound on what attention leaves is above what went in. What follows for these layers?",
    [
        ("Tokens do not fall together there.", False, "They do: the worst token comes from 12 down to 0.00005."),
        ("The derivation fails for trained weights.", False, "It holds: in every layer the measured value is below it."),
        ("Nothing: the bound leaves both open.", True, "It says what cannot be exceeded; here it allows growth."),
        ("The exponent is not 3 but 1 there.", False, "Small deviations are cubed in layer 2, too; here they are large."),
    ],
    keep_order=True,
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "Which of these changes the exponent 3 to 1?",
    [
        ("LayerNorm after the attention.", False, "Near identical rows it acts as one linear map: another constant, the same exponent."),
        ("An MLP after the attention.", False, "It stretches what is left by a factor at most; the exponent stays."),
        ("Scores that are four times as large.", False, "The cubic law sets in later, and then it is the same."),
        ("A causal mask.", True, "Queries average over different keys, so rows differ without any help of the scores."),
    ],
    keep_order=True,
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "48 layers with skip, MLP and LayerNorm after the sum, weights at gain 1, no training. What do you expect?",
    [
        ("Tokens stay apart: the skip prevents collapse.", False, "It prevents the cliff. A slope is left."),
        ("The residual falls by a constant factor per layer.", True, "Down to about a millionth; small branches avoid it."),
        ("The residual is cubed by every layer.", False, "The skip is of first order, so nothing is cubed."),
        ("It depends on the MLP: without one tokens collapse.", False, "In MiniLM tokens stay apart without one."),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "Without [CLS] a change moves other tokens further if rows are rescaled, and no further if they are not. What does the pair show?",
    [
        ("The value that [CLS] hands out holds the others still.", False, "That is gone in both cases, and in one of them nothing changes."),
        ("Weight that rests on [CLS] mixes less than on other tokens.", True, "Handed on to ordinary tokens, it carries the change further."),
        ("Any weight taken from tokens has the same effect.", False, "Somewhat less, taken from every second token, has about a third of it at the end."),
        ("Sinks are what keeps this model from collapsing.", False, "Its residual stays at 0.88 with or without [CLS]."),
    ],
)

# %% [markdown]
# ## Verdicts
#
# What this notebook measured, claim by claim. The card judged the note by the literature, so the words may differ. For
# C7.1: the residual falls, not the rank, and $e^{-cL}$ holds for causal masks and for skips at gain 1.


# %%
def at(name, layer):
    return float(f"{10 ** float(trained[name][layer].log10().mean()):.2g}")


law = {
    "slope of after on before, attention alone": round(slopes["alone"], 1),
    "with a causal mask": round(slopes["causal mask"], 1),
    "digits that agree after 3, 4, 5 layers": ", ".join(
        f"{v:.0f}" for v in grown[3:6]
    ),
}
depth = {
    "attention alone, residual after 3 layers": at("attention alone", 3),
    "with MLP and LayerNorm, after 4": at("MLP + LN", 4),
    "whole model, after 6": at("skip + MLP + LN", 6),
}
skips = {
    "least residual after 6 layers with skip": min(at(n, 6) for n in with_skip),
    "greatest after 5 without": "below 1e-7",
    "attention alone, window of 2, after 6": round(float(ends[0]["window of 2"][6]), 1),
    "window of 8, 96 random layers": round(float(ends[1]["window of 8"][96]), 2),
    "48 layers with skip, gain 1": "about 1e-6",
}

# %%
mlps = {
    "skip + LN, no MLP, after 6 layers": at("skip + LN", 6),
    "MLP + LN, no skip, after 4": at("MLP + LN", 4),
}
norms = {
    "skip + MLP, no LN, after 6 layers": at("skip + MLP", 6),
    "built stack with LN, rank 31, 48 layers": round(kept["LN"][32], 2),
}
display(
    claims.record("C7.1", law, "does not hold"),
    claims.record("C7.2", depth, "holds with conditions"),
    claims.record("C7.3", skips, "holds with conditions"),
    claims.record("C7.4", mlps, "does not hold"),
    claims.record("C7.5", norms, "does not hold"),
)

# %% [markdown]
# ## Takeaways
#
# 1. Attention that reads everything, and nothing else, cubes the distance between tokens: digits of agreement triple per
#    layer. It is a residual, not a rank.
# 2. The skip connection keeps short paths, and those keep tokens apart. It makes a slope of the cliff; small branches make
#    nearly a plateau of it.
# 3. MLP: not needed, not enough. LayerNorm: enough with the right weights and start. Masks: another law. Sinks: less
#    mixing; the whole model does not collapse without them.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
