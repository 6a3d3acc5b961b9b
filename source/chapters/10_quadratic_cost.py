# %% [markdown]
# # Quadratic cost
#
# **The insight.** Attention compares every token with every token: n² scores a head. Below n = 6d, six times the width,
# the rest of the layer has more operations. Exact attention now runs in memory that is linear in n; what grows more slowly
# than n² in time computes less, or something else.

# %% tags=["hide-input"]
import pandas as pd
import torch
from IPython.display import display
from torch.nn.functional import scaled_dot_product_attention as sdpa

from utils import attention_cost as cost
from utils import claims, figures, low_rank, planner, plots
from utils import cost_exercises as exercises
from utils import efficient_attention as ea
from utils import fast_weights as fw
from utils import length_models as lm
from utils.cost_explorer import amount, cost_explorer, costs
from utils.exercises import check
from utils.models import load, untrained
from utils.sweeps import sweep
from utils.training import fit

plots.use_style()
claims.card(10)

# %% [markdown]
# ## Objectives
#
# The card checks the claims of the *note*, the course note from which this book grew, against the sources. "read" says how a
# source was read for the book; UNCONFIRMED marks what nobody here has seen in the source itself
# ([evidence page](../pages/evidence.md)).
#
# You need matrix products and self-attention ([prerequisites](../pages/prerequisites.md), one page). Sinks, pooling and
# feature maps come from chapters [2](02-routing.ipynb), [5](05-low-rank.ipynb) and [6](06-fast-weights.ipynb); what is
# needed of them is said where it is used. With this notebook in front of you, you will be able to
#
# - **compute** which share of a layer's operations grows with n², and how many bytes, for a model and a length of your
#   choice;
# - **tell apart** what is exact and cheaper, what computes less, and what computes something else;
# - **count** the scores of a window with global tokens and random links, and say how many layers it takes to reach all;
# - **judge** a sentence such as "relative positions extrapolate" from losses by position.
#
# Reading takes about 35 minutes, running about half a minute. Times and the training of small language models come from
# cached sweeps; a part of each runs again here.
#
# ## What n² counts
#
# A head compares each of $n$ queries with each of $n$ keys. So it has $n^2$ **scores**, $S = Q K^\top / \sqrt{d_h}$. The
# softmax of each row makes weights of them, $P$, and the output is $P V$. A score is not an operation: it is a product of
# two vectors of width $d_h$, and later it weights a value of width $d_h$. All $H$ heads of a layer together, with
# $H d_h = d$, and a feed-forward network of width $f = 4d$ cost
#
# $$\underbrace{8 n d^2}_{W_Q, W_K, W_V, W_O} + \underbrace{16 n d^2}_{\text{feed-forward}} +
# \underbrace{4 n^2 d}_{Q K^\top \text{ and } P V} \quad \text{FLOPs},$$
#
# a **FLOP** being one multiplication or one addition. (Only matrix products are counted. Softmax, norms, biases and GELU
# add little.) Only the last term is quadratic. It equals the other two at $n = 24 d^2 / 4 d = 6 d$.
#
# | symbol | in code | meaning |
# |---|---|---|
# | $n$, $d$, $H$, $d_h$ | `n`, `width`, `heads`, `d_head` | tokens, width, heads, width of a head |
# | $Q$, $K$, $V$ | `q`, `k`, `v` | queries, keys, values, each $n \times d_h$ a head |
# | $S$, $P$ | | scores and weights, $n \times n$ a head |
# | $f$ | | width of the feed-forward network |
# | $\phi$, $m$ | `elu_plus_one`; `m` | feature map of a query or key; number of random features |
# | $E$, $k$ | `pooling`, 128 rows | Linformer's projection and its number of rows |
# | $w$ | `reach` | tokens that a window reaches to either side |
# | $g$, $r$ | `tokens`, `links` | global tokens; random links of a token |
#
# The note says: "n = 512: 262K operations; 4096: 16M, a bottleneck; 65K: 4B, impossible."
#
# :::{div} predict
# **Predict.** BERT-base has $d = 768$. At $n = 512$, the longest text it takes, which share of a layer's operations grows
# with n²: a tenth, a half, nine tenths?
# :::

# %%
model, tokenizer = load("minilm")
sizes = planner.Architecture.of(model)
for n in (128, 256, 512):  # torch's counter, on the real model
    ids = low_rank.token_windows(tokenizer, n, 1)
    counted = cost.counted_flops(lambda ids=ids: model(input_ids=ids))
    assert counted == planner.flops(sizes, n).total
rows = {}
for n in (512, 4096, 65536):
    found = costs(planner.BERT_BASE, n)
    total = found["projections"] + found["ffn"] + found["scores"]
    rows[f"n = {n:,}"] = {
        "scores in a head": amount(found["entries"]),
        "FLOPs in n²": amount(found["scores"]),
        "FLOPs of the layer": amount(total),
        "share of n²": f"{100 * found['share']:.0f} %",
        "all scores, in 2 bytes": amount(found["score_bytes"]) + "B",
        "flash keeps, in 4 bytes": amount(found["flash_bytes"]) + "B",
    }
share = costs(planner.BERT_BASE, 512)["share"]
assert 0.09 < share < 0.11 and costs(planner.BERT_BASE, 4608)["share"] == 0.5
pd.DataFrame(rows)

# %% [markdown]
# A tenth. The note's 262K, 16M and 4B (4.29 G) are right as numbers of *scores in one head*. As operations they are too
# small by a factor of $4 d$, 3,072 here: 805 M at $n = 512$. And the other 7.25 G of the layer are linear in $n$.
# (torch's counter, which counts matrix products only, gives exactly the planner's number for all of MiniLM.)
#
# The last two rows are memory, for the 12 heads of a layer. **Eager** attention, the formula as it is written, holds all
# scores, here in numbers of 2 bytes: 6.29 MB at 512 and 103 GB at 65,536. There "impossible" had a point. **Flash
# attention** goes through the keys block by block, keeps a running maximum and a running sum for each query, and never
# holds the scores {cite}`dao2022`. In their place it keeps, for a backward pass, one number a query and head, in 4 bytes.
# (The first version kept two.)
#
# ## Try it
#
# Move the length until half of the work is quadratic, then change the model. MiniLM has $d = 384$; the last model has
# grouped keys and values and a wide layer, as large decoders do.

# %% tags=["hide-input"]
wide = planner.Architecture(
    layers=32,
    width=4096,
    heads=32,
    kv_heads=8,
    ffn_width=14336,
    vocabulary=128256,
    positions=0,
    kind="decoder",
    gated=True,
)
cost_explorer(
    {
        "BERT-base, d = 768": planner.BERT_BASE,
        "MiniLM, d = 384": planner.MINILM,
        "wide decoder, d = 4096": wide,
    },
    n=512,
    title="At 512 tokens a tenth of the operations is quadratic",
    alt="Operations of one layer over the number of tokens, in n and in n², their shares, and bytes held.",
)

# %% [markdown]
# The wider the model, the later attention's square matters. At 4,096 tokens, "a bottleneck" for the note, a layer of
# BERT-base's size spends 47 % on it and the wide decoder 13 %. (All n² scores are counted; a kernel that leaves out what a
# causal mask hides computes half.) The wide decoder crosses at 6.5 d, not at 6 d: its feed-forward network has three
# matrices, its keys and values have fewer heads.
#
# ## Where it starts to matter, measured
#
# FLOPs are not seconds. Here is one layer of MiniLM's size, $d = 384$ with 12 heads, on one core: its linear work
# (projections, feed-forward network, norms), and its attention in two exact ways. *Eager* writes scores, weights and
# outputs to memory one after the other. *SDPA* is torch's `scaled_dot_product_attention`, on the CPU a kernel of the
# flash kind.
#
# :::{div} predict
# **Predict.** By FLOPs, attention equals the rest at $n = 6 d = 2304$. Does eager attention cross earlier, there, or
# later? And SDPA?
# :::

# %% mystnb={"figure": {"caption": "Processor time of attention over that of the rest of the layer, cached run, one thread. SDPA runs along the count of FLOPs, a sixth to a half above it. Eager attention crosses at a third of 6d and is, from 1,024 tokens on, 3.4 to 4.4 times as slow as SDPA, although it does the same products: most of that is the price of new memory for n² numbers, which the system hands out page by page in every call.", "name": "fig-cost-layer"}, "image": {"alt": "Three lines over 128 to 4096 tokens, both axes logarithmic. The counted FLOPs rise as a straight line and cross 1 at 2304. SDPA lies a little above it and ends at 2. Eager attention starts beside SDPA, crosses 1 between 512 and 1024 and ends near 9."}}
stored = sweep("attention_cost")
layer = pd.DataFrame(stored["layer"]).set_index("n")
lengths = layer.index.to_numpy()
ratio = layer[["eager", "SDPA"]].div(layer["rest"], axis=0)
meets = {
    name: cost.crossover(lengths, layer["rest"], layer[name])
    for name in ("eager", "SDPA")
}
live = cost.processor_seconds(cost.layer_calls(512), rounds=5)
assert 0.05 < live["SDPA"] / live["rest"] < 1  # a part again, live
figure, ax = plots.plt.subplots(figsize=(6.5, 3.8))
ax.plot(lengths, lengths / 2304, ":", color=plots.colour("null"), lw=3)
for index, (name, values) in enumerate(ratio.items()):
    ax.plot(lengths, values, "-o", color=f"C{index}", ms=4)
    ax.annotate(
        f" {name}", (4096, values.iloc[-1]), color=f"C{index}", va="center"
    )
ax.annotate("counted FLOPs", (330, 0.1), color=plots.colour("null"))
ax.axhline(1, color=plots.colour("text"), lw=0.8)
ax.set(xscale="log", yscale="log", xlabel="tokens n", xlim=(110, 6500))
ax.set_ylabel("time of attention ÷ rest of the layer")
ax.set_xticks(lengths, [str(n) for n in lengths], minor=False)
ax.minorticks_off()
ax.set_title("Eager attention crosses long before n = 6d, SDPA near it");
# %%
growth = cost.slopes(lengths, layer["rest"])
assert (growth > 0.7).all() and (growth < 1.3).all()  # linear in n
late = cost.slopes(lengths, layer["SDPA"])[-1]
assert 1.6 < late < 2.4  # quadratic, in time
assert 400 < meets["eager"] < 2304 and 1500 < meets["SDPA"] < 3500
assert ratio.loc[512].max() < 1 < ratio.loc[4096].min()
assert ratio.loc[4096, "eager"] > 1.5 * ratio.loc[4096, "SDPA"]
for name, n in meets.items():
    print(f"{name}: as long as the rest at about n = {n:.0f}")
shown = ratio.round(2).T.rename(index="{} ÷ rest".format)
shown.loc["rest, ms"] = (1000 * layer["rest"]).round(1)
shown

# %% [markdown]
# SDPA comes near the count: it takes as long as the rest at $n \approx 1900$, against 2304 for FLOPs. The rest of the layer
# is linear in $n$: 32 times the tokens take 32 times as long (last row). The time of a whole *layer* has no single slope.
# At 128 tokens attention is 8 % of it, and the layer looks linear; by the formula it is quadratic only far beyond $6 d$.
#
# Eager attention crosses at $n \approx 780$, a third of 2304, and at 4096 it takes 4.4 times as long as SDPA. Both do the
# same products. The difference is memory, in two ways. Eager attention writes 12 n² scores, reads them for the softmax,
# writes the weights and reads them again. That makes it 1.1 to 1.3 times as slow as SDPA up to 512
# tokens, and about 1.5 times beyond. The rest, from the jump between
# 512 and 1,024 tokens on, is the price of *asking* for memory. On this machine blocks of such a size go back to the system
# after each call and come anew, page by page, and most of eager attention's processor time goes there. With an allocator
# that keeps them the ratio at $n = 1024$ is 0.8 in place of 1.9, and the crossing moves to about 1,200 (the same in two
# runs, not stored). And in three runs of the whole on one day eager attention crossed at 750 to 780 and was 4.4 to 4.7 times
# as slow at 4096. So take from this figure the order and not the decimals.

# %% [markdown]
# ## Seven ways to attend
#
# Four heads of width 32, random queries, keys and values; the cost does not depend on what they are.
#
# | way | what it computes | against softmax |
# |---|---|---|
# | eager | softmax attention | exact |
# | SDPA | the same, block by block | exact |
# | window | softmax over the 128 tokens on either side, in blocks that leave the others out | less |
# | SDPA, window as a mask | the same window: all scores are computed, then masked | less |
# | Linformer | keys and values mixed into $k = 128$ rows by a matrix $E$, then softmax ([chapter 5](05-low-rank.ipynb)) {cite}`wang2020` | something else |
# | linear | $\phi(q) \cdot \phi(k)$ in place of $e^{q \cdot k/\sqrt{d_h}}$, with $\phi = $ elu + 1; keys first ([chapter 6](06-fast-weights.ipynb)) | something else |
# | Performer | as linear, with $m = 128$ random features whose products have $e^{q \cdot k/\sqrt{d_h}}$ as their mean {cite}`choromanski2021` | something else |
#
# Linear attention and Performer multiply in another order: $\phi(Q)\,(\phi(K)^\top V)$ costs $4 n m d_h$ FLOPs a head
# (linear attention: m = $d_h$) instead of $4 n^2 d_h$, and no n × n matrix is ever there.
#
# The table that follows has *slopes*: the exponent $a$ of $n^a$ between 1024 and 8192. 1 is proportional to n, 2 to n².
#
# :::{div} predict
# **Predict.** From $n = 1024$ to 8192, eight times as long: by which factor does the *time* of SDPA grow, and by which
# its *memory*? And does a window pay when it is written as a mask?
# :::

# %%
ways = pd.DataFrame(stored["methods"]).rename(columns={"seconds": "time"})
time_of, held_by, work_of = (
    ways.pivot(index="n", columns="method", values=value)[list(cost.METHODS)]
    for value in ("time", "bytes", "flops")
)
lengths = time_of.index.to_numpy()
tables = {"time": time_of, "memory": held_by, "FLOPs": work_of}
ends = [1024, 8192]
slope = {on: cost.slopes(ends, t.loc[ends])[0] for on, t in tables.items()}
slope = pd.DataFrame(slope, index=time_of.columns).rename_axis("slope of")
exact_ways, linear_ways = ["eager", "SDPA"], ["window", "Linformer", "linear"]
assert slope.loc[exact_ways, "time"].between(1.6, 2.8).all()
assert slope.loc[[*linear_ways, "Performer"], "time"].max() < 1.6
assert slope.loc[exact_ways, "FLOPs"].round(3).eq(2).all()
memory = slope["memory"]
assert memory["eager"] > 1.9 and memory["SDPA"] < 1.1
pays = {}
for way in cost.METHODS[2:]:
    n = cost.crossover(lengths, time_of[way], time_of["SDPA"])
    pays[way] = f"{float(f'{n:.2g}'):,.0f}" if n > 128 else "128, the first"
assert pays["SDPA, window as a mask"] == "inf"
slope = slope.round(1).astype(str)
slope["faster than SDPA from n"] = pd.Series(pays).replace("inf", "never")
slope.fillna("")

# %% mystnb={"figure": {"caption": "Processor time and peak of memory beside the inputs, four heads of width 32, cached run, one thread. SDPA is as quadratic in time as eager attention, only faster, and needs the least memory of all ways at every length. A window in blocks is linear in memory and nearly in time; the same window as a mask on SDPA costs more than SDPA without it. Memory is counted by torch's record of allocations.", "name": "fig-cost-ways"}, "image": {"alt": "Two panels over 128 to 8192 tokens, all axes logarithmic. Time: eager ends near 2 seconds, SDPA with a mask near 0.6, SDPA near 0.4, window near 0.11, Performer, Linformer and linear below 0.04. Memory: eager ends near 2 gigabytes, SDPA with a mask near 300 megabytes, all others below 140 megabytes, SDPA lowest with 5."}}
figure, axes = plots.plt.subplots(2, 1, figsize=(6.5, 6), sharex=True)
panels = {"processor time, s": time_of, "peak of memory, MB": held_by / 1e6}
nudge = {
    "SDPA, window as a mask": 6,
    "window": 3,
    "Performer": -2,
    "linear": -2,
}
shades = [plots.colour("text"), "C1", "C2", "C1", "C0", "C3", "C3"]
for ax, (label, table) in zip(axes, panels.items(), strict=True):
    for name, shade in zip(cost.METHODS, shades, strict=True):
        dash = "--" if name in ("SDPA, window as a mask", "Performer") else "-"
        ax.plot(lengths, table[name], dash, color=shade, marker="o", ms=3)
        up = {"xytext": (6, nudge.get(name, 0)), "textcoords": "offset points"}
        at = (lengths[-1], table[name].iloc[-1])
        ax.annotate(name, at, color=shade, va="center", fontsize=9, **up)
    ax.set(xscale="log", yscale="log", ylabel=label, xlim=(110, 40000))
axes[1].set(xlabel="tokens n")
axes[1].set_xticks(lengths, [str(n) for n in lengths])
axes[1].minorticks_off()
axes[0].set_title("Exact attention in blocks: time in n², memory in n");
# %%
inputs = cost.draw(2048)  # a part again, live
calls = {name: lambda f=f: f(*inputs) for name, f in cost.methods(2048).items()}
seconds = cost.processor_seconds(calls, rounds=3)
for name, call in calls.items():
    assert cost.counted_flops(call) == work_of.loc[2048, name]
assert seconds["eager"] > 1.5 * seconds["SDPA"]
assert seconds["SDPA"] > 2 * seconds["linear"]
assert seconds["SDPA, window as a mask"] > seconds["window"]
for name in ("eager", "window", "linear"):
    again = cost.peak_bytes(calls[name]) / held_by.loc[2048, name]
    assert abs(again - 1) < 0.05
longest = stored["longest"]
print(f"SDPA, {longest['n']:,} tokens, one head, one core, cached:")
print(f"{longest['seconds']:.0f} s, {longest['bytes'] / 1e6:.0f} MB held")
print(f"largest difference to eager, 256 queries: {longest['gap']:.0e}")
print(f"eager would hold {2 * 4 * longest['n'] ** 2 / 1e9:.0f} GB")

# %% [markdown]
# *Time and memory are two questions.* From 1024 to 8192 tokens SDPA's time grows 62-fold (slope 2.0; eager attention: 2.1)
# and its memory about 4-fold. By FLOPs both have slope 2.0. That is the point of flash attention: the square stays in the
# operations and leaves the memory. (The slope of memory is 0.7 because a part is fixed: the room for one block of
# scores, 0.56 MB at 1024 as at 8192. What grows with n are the output, 4.2 of the 4.9 MB at 8192, and one number a query
# and head, 0.1 MB.) None of the fast ways needs less: at 8192 linear
# attention holds 17 MB, Linformer 34, Performer 76, the window 134. All but SDPA are plain torch here and write down every
# step.
#
# At 65,536 tokens, "impossible", one head takes 7 seconds on one core and holds 9 MB. Nearly all of that is the output,
# 65,536 · 32 numbers of 4 bytes, which every way must write. (Eager's 34 GB are scores and weights of this one head in 4
# bytes. The 103 GB above are the scores alone, of 12 heads, in 2 bytes.)
#
# *A mask is not a saving.* SDPA with the window as a mask takes 15 to 27 % longer than without it up to 2,048 tokens and 45 %
# longer beyond. And torch turns the mask into n² numbers of 4 bytes: 268 of the 273 MB at 8192. In blocks the same window
# costs less time than SDPA from about 1,200 tokens on. Below that the bookkeeping is
# dearer than the scores it saves; up to 384 tokens it saves none, as each query meets three blocks of 128 keys.
#
# *Linear is linear.* Linear attention pays at every length measured, Linformer from about 310 tokens, Performer from about
# 440: it has four times as many features as the head is wide, and an exponential for each. In three runs of a day the
# window's crossing lay at 1,200 to 1,300, Linformer's at 250 to 360, Performer's at 440 to 610. Such crossings move with
# the load, the machine, with $d_h$ and with the code. Slopes move less: those of FLOPs are 1 and 2, those of time here 1.0
# to 1.2 and 2.0 to 2.1.
#
# :::{div} speaker-notes
# 8 minutes. Draw the two panels without labels and let the class assign the names. Likely wrong answer: "SDPA is
# linear". Ask what it saves (memory traffic) and what not (products). To save time, cut the table of slopes.
# :::
#
# ## Exact, less, or something else
#
# Speed is half of the answer. The table of ways has three kinds. *Exact* ways give softmax attention. A window computes
# *less*: softmax over fewer keys, exactly. Linformer, linear attention and Performer put *something else* in its place.
# Three pairs, a fast formula and a slow one for the same thing, must be equal; that can be checked. How far the others are
# off depends on queries and keys. So take real ones: MiniLM's, all 72 heads, on texts of 512 tokens. (That is the most it
# takes. By its model card it was last trained on texts of at most 128.) Linformer needs a trained $E$; in its place stands
# the mean of each four neighbours, *mean pooling to 128*.
#
# Null models: *uniform attention*, which ignores queries and keys and returns the mean value; *random masks* with as many
# scores as the windows; the same model with fresh weights; random queries and keys. An error is $\lVert$output − exact
# output$\rVert$ / $\lVert$exact output$\rVert$ of a head.
#
# :::{div} predict
# **Predict.** Performer with 128 random features, for heads of width 32, on a trained model: does it err less than uniform
# attention, which costs one mean?
# :::

# %%
q, k, v = low_rank.heads_of_text(
    model, low_rank.token_windows(tokenizer, 512, 1)
)[0]
feature_q, feature_k = fw.elu_plus_one(q), fw.elu_plus_one(k)
pairs = {
    "SDPA and eager": (sdpa(q, k, v), ea.eager(q, k, v)),
    "window in blocks and as a mask": (
        ea.windowed(q, k, v, 128),
        sdpa(q, k, v, attn_mask=ea.window_mask(512, 128)),
    ),
    "keys first and kernel matrix": (
        ea.from_features(feature_q, feature_k, v),
        fw.linear_attention(feature_q, feature_k, v),
    ),
}
for name, (one, other) in pairs.items():
    assert (one - other).abs().max() < 1e-4 * other.abs().max()
    print(f"{name}: equal to rounding")

# %%
pooling = low_rank.mean_pooling(128, 512)
directions = ea.directions(128, 32)
ways_to_err = {
    "window ± 128": lambda q, k, v: ea.windowed(q, k, v, 128),
    "window ± 32": lambda q, k, v: ea.windowed(q, k, v, 32),
    "random mask, 44 %": ea.masked(ea.random_mask(512, 225)),
    "random mask, 12 %": ea.masked(ea.random_mask(512, 63)),
    "mean pooling to 128": lambda q, k, v: low_rank.projected(
        q, k, v, pooling, pooling
    ),
    "linear, elu + 1": lambda q, k, v: ea.from_features(
        fw.elu_plus_one(q), fw.elu_plus_one(k), v
    ),
    "Performer, 128 features": lambda q, k, v: ea.performer(
        q, k, v, directions
    ),
    "uniform attention": ea.uniform,
}
for reach, links in {128: 225, 32: 63}.items():  # as many scores, nearly
    scores = int(ea.window_mask(512, reach).sum())
    assert abs(scores - 512 * links) < 512

# %%
ids = low_rank.token_windows(tokenizer, 512, 2)
layers = low_rank.heads_of_text(model, ids)  # (q, k, v) of each layer
fresh = low_rank.heads_of_text(untrained(model), ids[:1])
columns = {"MiniLM": layers, "untrained": fresh}
for scale in (0.5, 1.0):
    made = cost.draw(512, heads=12, scale=scale)
    columns[f"random, scores ± {scale**2:g}"] = [made]
found = {name: ea.errors(ways_to_err, x) for name, x in columns.items()}
trained = found["MiniLM"]  # way → a mean over texts for each of 72 heads
means = pd.DataFrame(found).map(lambda error: float(error.mean()))
for name, each in columns.items():
    scores = [(q @ k.mT / 32**0.5).std() for q, k, _ in each]
    lengths_of = [torch.stack([q, k]).norm(dim=-1).mean() for q, k, _ in each]
    means.loc["sd of the scores", name] = float(sum(scores) / len(each))
    means.loc["length of q, k", name] = float(sum(lengths_of) / len(each))
print(means.round(2).to_string())

# %% mystnb={"figure": {"caption": "Error of eight ways on MiniLM's own queries, keys and values, 512 tokens; one dot a head, mean of two texts; thick bar: mean of 72 heads. In the mean Performer with 128 features errs more than uniform attention, which ignores queries and keys. The wide window errs least; it sees 44 % of the pairs, and a random mask of as many is not far behind.", "name": "fig-cost-errors"}, "image": {"alt": "Eight strips of dots on an axis of relative error from 0.1 to 1.8. Means: window of 128 near 0.4, random mask of 44 % near 0.5, mean pooling near 0.55, linear and window of 32 near 0.75, Performer near 0.85, random mask of 12 % near 0.9, uniform attention in grey near 0.77."}} tags=["claim"]
ours = means["MiniLM"]
assert ours["Performer, 128 features"] > 0.9 * ours["uniform attention"] > 0.5
assert ours["window ± 128"] < 0.7 * ours["uniform attention"]
assert ours["window ± 32"] < ours["random mask, 12 %"] - 0.05
assert means.loc["Performer, 128 features", "untrained"] < 0.05
plots.strips(
    trained,
    x="relative error of a head's output",
    null=["random mask, 44 %", "random mask, 12 %", "uniform attention"],
    title="In the mean Performer errs more than uniform attention",
);
# %%
for seed in range(1, 4):  # other draws, all heads, both texts
    again = ea.directions(128, 32, seed)
    way = {"": lambda q, k, v, w=again: ea.performer(q, k, v, w)}
    error = ea.errors(way, layers)[""]
    worse = int((error > trained["uniform attention"]).sum())
    print(f"draw {seed}: error {error.mean():.2f}, worse in {worse} heads")
x = [part[:1] for part in layers[3]]  # the fourth layer, one text
exact = ea.eager(*x)
print(f"uniform, fourth layer: {ea.error(ea.uniform(*x), exact).mean():.2f}")
for m in (32, 128, 512, 2048):
    draws = [ea.directions(m, 32, seed) for seed in range(3)]
    each = [ea.error(ea.performer(*x, w), exact).mean() for w in draws]
    print(f"Performer, {m:4} features: {min(each):.2f} to {max(each):.2f}")
ones = torch.eye(512).expand(1, 12, 512, 512)  # as values: the map comes out
for name, maps in {
    "softmax": low_rank.attention_weights(*x[:2]),
    "Performer": ea.performer(*x[:2], ones, directions),
}.items():  # of the first head
    rank = int(torch.linalg.matrix_rank(maps[0, 0].double(), rtol=1e-6))
    assert rank > 500 if name == "softmax" else rank <= 128
    print(f"rank of a {name} map:", "> 500" if rank > 500 else "≤ 128")

# %% [markdown]
# Performer, 0.86, errs *more* than uniform attention, 0.77; three other draws of its features give the same picture. More
# features help slowly: in the fourth layer 512 of them, as many as the text has tokens, err about as much as uniform
# attention, and 2,048 still 0.7. Its features estimate $e^{q \cdot k/\sqrt{d_h}}$ without bias. (The weights are a ratio of
# such estimates.) But the spread of the estimate grows exponentially with $\lVert q + k \rVert^2$, and training made both
# long: 7.6 in the mean, against 2.2 in the untrained model. In random inputs whose scores have a standard deviation of
# 0.25 they are 2.8 long; there Performer errs 0.38 at 128 features, and uniform attention, 0.25, is better as well. Only
# on untrained weights Performer is a little better, 0.015 against 0.016.
#
# Compare within a column, with uniform attention, and not between columns. Random values cancel, the exact output is nearly
# 0, and an error relative to it is large: a window of 32 errs 2.65 and 2.53 there. On untrained weights everything but
# the masks errs below 0.05. That sounds like a success of all methods; it says that the scores there are near 0, and
# every way returns the mean. "On random inputs the error is small" is not evidence.
#
# The wide window errs least, 0.42; but it sees nearly half of a text of 512. The narrow one errs 0.75, about as uniform
# attention. Random masks with as many scores err 0.49 and 0.91: to be near helps, to have many scores helps more. Pooling
# keys and values, without any training, errs 0.56.
#
# Is Performer "a low-rank approximation"? The map that is *used* has rank at most $k$ in Linformer, $m$ in Performer, $d_h$
# in linear attention; a window has no such limit. In Linformer low rank is the *assumption*: softmax maps are taken to be
# nearly of low rank. Performer assumes nothing about the rank of $P$. It estimates a kernel, and with more and more features
# it would come to any $P$, slowly. The note throws the two together.
#
# ## Windows, global tokens, random links
#
# A window is exact for what it computes, and blind beyond. Two remedies: a few **global** tokens, which read all and
# are read by all, and **random links**, a few keys drawn for each query. The note says that BigBird and Longformer
# combine all three. Longformer has windows (also dilated, with gaps) and global tokens, no random links
# {cite}`beltagy2020`; BigBird has all three. {cite:t}`zaheer2020` show that its pattern can approximate any continuous
# function from sequences to sequences, and that some tasks need more layers with it, $\tilde\Omega(n)$ (abstract and
# limitations, abstract or transcript was read).
#
# How much do they cost, and how far do they see? Count the scores, and the layers until *every* token can have heard of
# every other.
#
# :::{div} predict
# **Predict.** 512 tokens, a window of 16 to either side. How many layers does it take without anything else? With one global
# token? With three random links a token instead?
# :::


# %% mystnb={"figure": {"caption": "Who may read whom, 64 tokens: a window of 4, with 1 global token (Longformer's parts), with 3 random links a token besides (BigBird's parts). Row = query, column = key; dark: computed. The table below counts these three, and a window with links alone, for 512 tokens and a window of 16.", "name": "fig-cost-masks"}, "image": {"alt": "Three square masks. The first has a band along the diagonal. The second adds the first row and column. The third adds scattered single cells."}}
def mask(n, reach, tokens=0, links=0, seed=0):
    """Window, global tokens, random links: (n, n)."""
    found = ea.window_mask(n, reach) | ea.global_mask(n, tokens)
    return found | ea.random_mask(n, links, seed)


pictures = {
    "window": mask(64, 4),
    "+ global": mask(64, 4, 1),
    "+ random": mask(64, 4, 1, 3),
}
counts = [int(each.sum()) for each in pictures.values()]
assert counts == sorted(counts) and counts[0] == 64 * 9 - 4 * 5
figure, axes = plots.plt.subplots(1, 3, figsize=(7.2, 2.7))
for ax, (name, each) in zip(axes, pictures.items(), strict=True):
    ax.imshow(each, cmap=plots.amounts(), vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[], xlabel=f"{name}: {int(each.sum()):,}")
    ax.spines[:].set_visible(True)
axes[0].set_ylabel("query")
figure.suptitle("Scores computed: a seventh to a fifth of 4,096", x=0.5);
# %%
kinds = {
    "window ± 16": {},
    "window + 1 global": {"tokens": 1},
    "window + 3 random": {"links": 3},
    "window + 1 global + 3 random": {"tokens": 1, "links": 3},
}
rows = {}
for name, options in kinds.items():
    drawn = [mask(512, 16, **options, seed=seed) for seed in range(5)]
    needed = sorted({ea.layers_needed(each) for each in drawn})
    scores = int(drawn[0].sum())
    row = {"scores": f"{scores:,}", "of all": f"{scores / 512**2:.1%}"}
    rows[name] = row | {"layers needed": " or ".join(map(str, needed))}
patterns = pd.DataFrame(rows).T
assert int(ea.window_mask(512, 16).sum()) == 512 * 33 - 16 * 17
assert list(patterns["layers needed"])[:2] == ["32", "2"]
patterns

# %% [markdown]
# A window alone needs 32 layers, $\lceil 511/16 \rceil$; MiniLM has 6. One global token makes it 2, everybody by way of
# that one: for 990 scores more than the window's 16,624. Three random links a token make it 4 (in each of five draws),
# without any place that all must pass. With $g$ global tokens and $r$ links the cost is about $n\,(2w + 1 + 2g + r)$:
# linear in $n$.
#
# That a path exists says nothing about what gets through it. All that passes a global token must fit into its one vector.
#
# :::{div} speaker-notes
# 5 minutes. Let the class guess the number of layers before the run. Ask what a global token should be: a new token,
# the question, [CLS]? "Where this breaks" has an answer for MiniLM.
# :::
#
# ## Reading longer than trained
#
# Cheap attention invites long texts. The last claim of the note is about them: relative positions "let a model
# extrapolate". Take one tiny language model (two layers, width 64, 4 heads; it reads characters of the English prose that
# this book uses throughout, 88 thousand for training) and give it positions in six ways. Train on 64 characters, 600 steps of
# 16 texts. Read 512.
#
# | positions | how |
# |---|---|
# | sinusoidal | a vector of sines and cosines is added to each token {cite}`vaswani2017` |
# | sinusoidal, shifted | the same, but training windows start at a place from 0 to 448 |
# | rotary | queries and keys are turned by an angle that grows with the place |
# | relative | a learned vector for each distance is added to the key; distances from 16 on share one {cite}`shaw2018` |
# | ALiBi | a slope times the distance is taken off each score {cite}`press2022` |
# | none | only the causal mask tells places apart |
#
# (Of Shaw's relative positions this is the part of the keys.) "Longer" changes two things at once: places get numbers that
# were never trained, and each token has more before it. So each character is read three times by the same model:
#
# - *whole*: with everything before it, up to 511 characters;
# - *window*: places as they are, but in each layer a token sees itself and the 63 before it;
# - *cut*: the model gets only the last 64 characters up to this one, with places from 0 as in training. This is the null
#   model: nothing is longer, nothing is new.
#
# A second null model knows no positions at all: a table of which character follows which (*bigrams*), from the same text.
#
# :::{div} predict
# **Predict.** A model with sinusoidal positions reads character 300 of a text. Does the window save it? And which kinds
# get *better* with a longer text, as one would hope?
# :::

# %%
lengths_stored = sweep("length_extrapolation")
runs = pd.DataFrame(lengths_stored["runs"])
names, BLOCK = list(lm.POSITIONS), lengths_stored["made"]["block"]
assert list(runs["positions"]) == 3 * names  # three seeds
readings = {
    name: torch.tensor(runs[name].tolist()).view(3, len(names), -1)
    for name in ("whole", "window", "cut")
}  # (seeds, kinds, blocks of 16 positions)
more = {name: readings[name] - readings["cut"] for name in ("whole", "window")}
columns = {
    "cut, 32 to 63": readings["cut"][..., 2:4],  # blocks 2 and 3
    "whole, 256 to 511": readings["whole"][..., 16:],
    "whole − cut, 64 to 127": more["whole"][..., 4:8],
    "whole − cut, 256 to 511": more["whole"][..., 16:],
    "window − cut, 256 to 511": more["window"][..., 16:],
}
losses = pd.DataFrame(
    {name: part.mean((0, 2)).tolist() for name, part in columns.items()},
    index=names,
)
losses = losses.round(2) + 0.0  # no "-0.00"
train, test = lm.corpus()
print(f"bigrams: {lm.bigram_loss(train, test):.2f} nats a character")
losses

# %% mystnb={"figure": {"caption": "What a longer text adds to the loss, against the same characters read with the last 64 only; 0 is neither better nor worse. Points: blocks of 16 places. Lines: mean of 3 seeds, band: their range. Sinusoidal positions fail within the first 16 new places, also where each layer sees the last 64 only: what fails are places never seen in training. Rotary ones fail two to three blocks later, and the window saves them: what fails are new distances. Relative positions and ALiBi do not fail, and gain nothing.", "name": "fig-cost-lengths"}, "image": {"alt": "Two panels over positions 0 to 512, a dotted line at 64. Upper panel, whole text: sinusoidal jumps to about 1.4 at 64 and stays near 1.6, rotary climbs from 96 on and passes 2 at about 160, sinusoidal shifted rises to about 0.3, none to about 0.1, relative and ALiBi stay at 0. Lower panel, window: sinusoidal near 1.5, shifted and none at about 0.1 or below, all others at 0."}}
tall = {"height_ratios": (3, 2), "sharex": True, "figsize": (6.5, 5)}
figure, axes = plots.plt.subplots(2, 1, **tall)
places = torch.arange(512 // BLOCK) * BLOCK + BLOCK / 2
style = dict(zip(names, ("C0", "C0--", "C1", "C2", "C3--", "C4:"), strict=True))
nudge = {"sinusoidal, shifted": 8, "none": 5, "relative": -9}
for ax, (reading, gap) in zip(axes, more.items(), strict=True):
    for index, (name, look) in enumerate(style.items()):
        shade, dash, each = look[:2], look[2:] or "-", gap[:, index].numpy()
        ax.plot(places, each.mean(0), dash, color=shade)
        band = each.min(0), each.max(0)
        ax.fill_between(places, *band, color=shade, alpha=0.2, lw=0)
        up = {"xytext": (8, nudge.get(name, 0)), "textcoords": "offset points"}
        end = (504, each.mean(0)[-4:].mean())
        label = {"relative": "relative, ALiBi", "ALiBi": ""}.get(name, name)
        if reading == "whole" or name == "sinusoidal":
            ax.annotate(label, end, color=shade, va="center", fontsize=9, **up)
    ax.axhline(0, color=plots.colour("text"), lw=0.8)
    ax.axvline(64, color=plots.colour("text"), lw=0.8, ls=":")
    ax.set(ylabel=f"{reading} − cut, nats", xlim=(0, 660))
    ax.set_ylim(bottom=-0.25)
axes[1].annotate("all others", (516, 0.05), va="bottom", fontsize=9)
axes[1].set(xlabel="position (trained up to 64)", xticks=range(0, 513, 64))
axes[0].set_title("New places break sinusoidal positions, new distances rotary");
# %%
far = more["whole"][..., 16:].mean(2)  # (seeds, kinds)
kept = [names.index(name) for name in ("relative", "ALiBi")]
lost = [names.index(name) for name in ("sinusoidal", "rotary")]
assert far[:, kept].abs().max() < 0.1 < 1 < far[:, lost].min()
windowed = more["window"][..., 16:].mean(2)[:, lost]
assert windowed[:, 0].min() > 1 > 0.1 > windowed[:, 1].abs().max()
longer = pd.DataFrame(lengths_stored["longer"])[["whole", "cut"]]
whole, cut = (torch.tensor(longer[name].tolist()) for name in longer)
gain = (whole - cut)[:, 128 // BLOCK : 256 // BLOCK].mean(1)  # a seed each
assert gain.abs().max() < 0.02
print(f"relative, trained on 256, from 128 on: {gain.mean():+.3f} nats")
ids_128 = lm.windows(test, 128, 1024)
options = {"learning_rate": 3e-3, "warmup": 50, "seed": 70}  # a new seed
for positions, steps in {"sinusoidal": 250, "ALiBi": 100}.items():
    tiny = lm.TinyLanguageModel(positions, seed=70)
    fit(tiny, lm.batches(train), lm.mean_loss, steps=steps, **options)
    whole = lm.position_losses(tiny, ids_128)
    gap = (whole - lm.cut_losses(tiny, ids_128))[:, 64:].mean()
    assert whole[:, 32:64].mean() < 3.0  # it has learned: chance is 4.16
    if positions == "sinusoidal":
        assert gap > 0.1
    else:
        assert gap.abs() < 0.05
    found = "more than 0.1 worse" if gap > 0.1 else "within 0.05 nats of cut"
    print(f"live, {positions}, {steps} steps, beyond 64: {found}")

# %% [markdown]
# *Sinusoidal* positions fail within the first 16 new places: 1.56 nats more a character between 64 and 127, where 1.62
# is the loss inside the training length. (That 1.62 stands in the fourth column, too, is chance.) Far out its loss,
# 3.31, is above that of bigrams, 2.40. The window does not save it. So neither the length of the text nor the spread of
# attention is to blame; vectors that were never added in training are. *Shifted*, the same formula has seen all places,
# and most of the loss beyond 64 goes away (+0.28 for the whole text, +0.04 with the window). The price: after as many
# steps it is worse inside, 2.02 against 1.62.
#
# *Rotary* positions hold for about thirty places and then fail worst of all (+2.27). With the window they lose nothing, at
# any place: they see distances only, and every distance within 64 was trained.
#
# *Relative* positions and *ALiBi* hold up to eight times the length. With relative ones no distance is new, all from 16
# on share one vector; with ALiBi a new distance gets a weight near 0. But look at the sign. A longer text makes nothing
# *better*: +0.02 and 0.00. Could it? Relative positions *trained* on texts of 256 read their own long texts better than
# cut ones by 0.003 nats only (printed above; 3 seeds). So this kind, in this model, has next to nothing to gain beyond
# 64 characters. The experiment can show that positions break; that a longer text is *used* it cannot show.
#
# *No positions* lose little (+0.13), but they have little to lose: 2.25 inside is the worst loss of all, not far below
# bigrams, 2.40. Read each difference beside the first column.
#
# How does this compare? Sinusoidal first, rotary later, ALiBi not at all: so it is in {cite:t}`press2022`, too, whose
# relative kind is the bias of T5. That rotary ends worse than sinusoidal is not in what we have of theirs.
# {cite:t}`kazemnejad2023` put no positions first and ALiBi third, behind T5: they
# compare by mean reciprocal rank, we by the loss of
# the next character, of one tiny model on one kind of prose. And Shaw et al., whom the note names, are not known to have
# tested longer texts at all (see the card). So the claim holds here in the sense "is not worse", for a small model; in the
# sense "profits from more text" it has no support.
#
# :::{div} speaker-notes
# 10 minutes. Show the upper panel first and ask for the reason; most say "the text is too long". Then show the lower
# one: with the window no layer attends farther than in training (two layers together hear of 127 characters), and
# sinusoidal positions fail all the same. To save time, leave out "shifted" and "none".
# :::
#
# ## Where this breaks
#
# :::{div} breaks
# "What grows more slowly than n² in time computes less, or something else" is true of each head, and says little about the
# model. Put such
# ways into all layers of the trained model, without training: some come near the model, one is hardly better than
# uniform attention. The errors of the heads say roughly which, and not how near.
# :::
#
# Below, MiniLM reads 512 tokens under masks, with Performer, and with uniform attention. One mask adds a single global token
# to the window of 32: [CLS], the first. Is it a road for content, or a place to rest weight on? Two masks take it apart: all
# may *read* [CLS], which itself sees its window only; or [CLS] reads all, and only its window may read it. Null models for
# it: three other tokens in its place, and two random links a token, nearly as many scores as a global token adds.

# %%
near, first = ea.window_mask(512, 32), torch.arange(512) == 0
one = {at: torch.arange(512) == at for at in (100, 200, 300)}
seen = {
    "window ± 32": near,
    "+ [CLS]": near | ea.global_mask(512, 1),
    "+ [CLS], read by all": near | first,
    "+ [CLS], reads all": near | first[:, None],
    **{f"+ token {at}": near | it | it[:, None] for at, it in one.items()},
    "+ 2 random": near | ea.random_mask(512, 2),
    "window ± 128": ea.window_mask(512, 128),
}
ways_in = {name: ea.masked(allowed) for name, allowed in seen.items()}
ways_in["Performer, 128"] = ways_to_err["Performer, 128 features"]
ways_in["uniform"] = ea.uniform
ids = low_rank.token_windows(tokenizer, 512, 3)
with torch.no_grad():
    embedding = model(input_ids=ids).last_hidden_state.mean(1)
    cosine = {}
    for name, way in ways_in.items():
        with low_rank.replaced(model, lambda _, *x, way=way: way(*x)):
            found = model(input_ids=ids).last_hidden_state.mean(1)
        cosine[name] = torch.cosine_similarity(found, embedding)
others = embedding.roll(1, 0)
cosine["another text"] = torch.cosine_similarity(others, embedding)

# %% mystnb={"figure": {"caption": "Sentence embeddings of MiniLM, 512 tokens, when every layer attends in another way, against the model as it is; one dot a text (some hide others), thick bar: mean. A window of 32 and one global token, [CLS], do as well as a window of 128 with three and a half times as many scores, and it is enough that all may read [CLS]. Other tokens in its place do not help. Grey: uniform attention and another text.", "name": "fig-cost-swap"}, "image": {"alt": "Twelve strips of three dots on a cosine axis. Window of 128, window of 32 with CLS and with CLS read by all near 0.92; window of 32 near 0.8, alone, with CLS that only reads, with tokens 100 and 300 and with random links; with token 200 two dots at 0.8 and one at 0.6; Performer from 0.47 to 0.63; in grey uniform attention near 0.52 and another text near 0.68."}}
size = {name: f"{100 * m.float().mean():.0f} %" for name, m in seen.items()}
assert size["+ [CLS]"] == size["+ 2 random"] == size["+ token 200"]
plots.strips(
    cosine,
    ax=plots.plt.subplots(figsize=(6.5, 5.6))[1],
    x="cosine to the embedding of the whole model",
    null=["uniform", "another text"],
    title="One global token is worth a window four times as wide",
);
# %% tags=["claim"]
read = [low_rank.attention_weights(q[:1], k[:1]) for q, k, _ in layers]
read = torch.stack(read).mean((0, 1, 2, 3))  # weight of each token, one text
print(f"weight on [CLS] {read[0]:.3f}, most on another {read[1:].max():.3f}")
assert read[0] > 20 / 512 > read[1:].max()  # a sink: many times its share
some = {way: ways_in[way] for way in ("+ [CLS]", "+ token 200", "+ 2 random")}
heads = trained | ea.errors(some, layers)
names_of = {"Performer, 128": "Performer, 128 features"}
names_of["uniform"] = "uniform attention"
rows = {}
for name, each in cosine.items():
    row = {"cosine": f"{each.mean():.2f}"}
    row["by text"] = f"{each.min():.2f} to {each.max():.2f}"
    error = heads.get(names_of.get(name, name))
    row["error of heads"] = "" if error is None else f"{error.mean():.2f}"
    rows[name] = row | {"scores computed": size.get(name, "")}
best = cosine["+ [CLS]"].mean()
for name in ("+ [CLS], reads all", "+ token 200", "+ 2 random"):
    assert best > cosine[name].mean() + 0.05
assert (cosine["+ [CLS], read by all"] > cosine["window ± 32"] + 0.05).all()
assert (best - cosine["window ± 128"].mean()).abs() < 0.05
assert cosine["Performer, 128"].mean() < cosine["another text"].mean() + 0.05
pd.DataFrame(rows).T

# %% [markdown]
# Look at the second line. The window of 32 and one global token keep a cosine of 0.92, as much as a window of 128, with
# 13 % of the scores against 44 %. It must be the right token: tokens 100 and 300 in its place change next to nothing,
# 200 costs one of the three texts 0.2, and random links give 0.81. And [CLS] is no road for content here: when all may
# read it, although in each layer it sees 33 tokens only, the cosine is 0.92; when it reads all and few may read it,
# 0.80. The reason is in [chapter 2](02-routing.ipynb) and [chapter 7](07-rank-collapse.ipynb): the first token is a
# *sink*. In the mean over heads a tenth of all weight rests on [CLS] (one text; printed above), fifty times its share.
# Take that place away, and softmax must put the weight on something else.
#
# Could one have read that off the errors of heads? The order, roughly: [CLS] takes the error of the narrow window from
# 0.75 to 0.57, and token 200 and random links hardly move it. But not the size. As heads the narrow window and uniform
# attention are level, 0.75 and 0.77; in the model they are 0.80 and 0.52, and another *text* has 0.68. Performer, 0.54
# (0.47 to 0.63), is hardly better than uniform attention. How far a model is off, only a run of the whole model tells.
# (Three texts, longer than those of its training, no training with the new ways: a model *trained* with random features
# is another matter.)
#
# ## Since 2021
#
# - {cite:t}`dao2022` report for their kernel 836 MB at $n = 4096$, against 17,024 MB for the standard one (memory table;
#   abstract or transcript was read), and time it at up to 65,536 tokens. It is exact, and its FLOPs are quadratic as
#   before. (The task that they solve at that length they solve with a block-sparse variant, which leaves scores out;
#   transcripts, UNCONFIRMED.)
# - {cite:t}`tay2021` report memory at 4K tokens: 9.48 GB for full attention, 0.99 for Linformer, 1.06 for Performer, 2.88
#   for BigBird (read in the same way).
# - {cite:t}`press2022`, the paper of ALiBi: sinusoidal positions fail 20 to 50 tokens past the training length, rotary
#   after 100 to 200, the bias of T5 after 600 to 800; ALiBi trained at 512 has a perplexity of 18.40 at 3072 (abstract or
#   transcript).
# - {cite:t}`kazemnejad2023` compare generalisation to longer inputs, by mean reciprocal rank: no positions 0.69, T5 0.55,
#   ALiBi 0.50, rotary 0.33, absolute 0.22 (abstract or transcript).
# - {cite:t}`kiyono2021`, for translation: relative positions extrapolate *better* than absolute ones. Better, not solved
#   (abstract or transcript).
#
# ## Exercises
#
# ::::{div} exercise
# **Exercise 10.1** · difficulty 1/5 · about 5 minutes · needs "What n² counts"
#
# Which share of a layer's FLOPs grows with n²? For $H d_h = d$ and a feed-forward network of any width $f$. Count matrix
# products only. (The planner knows; write it yourself.)
#
# :::{dropdown} Hint
# A matrix of a rows and b columns costs 2ab FLOPs a token. How many matrices are d × d, how many d × f?
# :::
# :::{dropdown} Second hint
# $Q K^\top$ takes $2 n^2 d$ over all heads, and so does $P V$.
# :::
# ::::


# %%
def quadratic_share(n, d, f):
    """n tokens, width d, feed-forward width f. Returns a number in [0, 1]."""
    ### BEGIN SOLUTION
    square = 4 * n * n * d
    return square / (square + 8 * n * d * d + 4 * n * d * f)
    ### END SOLUTION


check("10.1", quadratic_share, exercises.is_the_quadratic_share)

# %% [markdown]
# ::::{div} exercise
# **Exercise 10.2** · difficulty 2/5 · about 8 minutes · needs "Windows, global tokens, random links"
#
# How many scores does a window of `reach` tokens on either side hold, for $n$ tokens? A formula, no loop and no mask:
# it must be quick for $n = 10^9$. When reach ≥ n − 1, every token sees every other, and it is n².
#
# :::{dropdown} Hint
# Away from the edges each token has 2 · reach + 1 keys. How many does the first token miss, the second, …?
# :::
# :::{dropdown} Second hint
# Count along the diagonals: the one at distance j holds n − j scores, and there are two of them for j > 0.
# :::
# ::::


# %%
def window_scores(n, reach):
    """n tokens, reach to either side. Returns a whole number."""
    ### BEGIN SOLUTION
    reach = min(reach, n - 1)
    return n * (2 * reach + 1) - reach * (reach + 1)
    ### END SOLUTION


check("10.2", window_scores, exercises.counts_a_window)

# %% [markdown]
# ::::{div} exercise
# **Exercise 10.3** · difficulty 3/5 · about 12 minutes · needs "What n² counts"
#
# Flash attention's trick for one query: go through the keys in blocks and never hold more than a block of the scores
# $q \cdot k/\sqrt{d}$ ($d$ is the width of the query here, a head's).
# Keep the largest score so far, the sum of exponentials and the weighted sum of values, and rescale
# the two sums when a larger score turns up. The last block may be shorter. (The check looks at the shapes that torch
# returns to your code.)
#
# :::{dropdown} Hint
# For a new block: `top = torch.maximum(old_top, scores.max())`. What was summed with the old maximum must be multiplied by
# $e^{\text{old} - \text{new}}$.
# :::
# :::{dropdown} Second hint
# Start with a maximum of −∞, a sum of 0 and a vector of zeros. Divide once, at the end.
# :::
# ::::


# %%
def in_blocks(query, keys, values, block):
    """query: (d,), keys, values: (n, d). Returns softmax(q Kᵀ / √d) V, (d,)."""
    ### BEGIN SOLUTION
    top, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    output = torch.zeros_like(query)
    for k, v in zip(keys.split(block), values.split(block), strict=True):
        scores = k @ query / query.shape[0] ** 0.5
        new = torch.maximum(top, scores.max())
        old, weights = (top - new).exp(), (scores - new).exp()
        total = total * old + weights.sum()
        output, top = output * old + weights @ v, new
    return output / total
    ### END SOLUTION


check("10.3", in_blocks, exercises.is_exact_in_blocks)

# %% [markdown]
# ## Quiz

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "A text grows from 300 to 600 tokens, in a layer of width 1024 with flash attention. How do the layer's FLOPs grow?",
    [
        (
            "Fourfold: attention is quadratic, and a layer is attention.",
            False,
            "Its n² part does grow fourfold, and starts as a small share.",
        ),
        (
            "A little more than twofold: the n² part is still small there.",
            True,
            "n = 6d is 6,144. The n² part is 5 % before and 9 % after: a factor of 2.1.",
        ),
        (
            "Twofold: with flash attention a layer is linear in its length.",
            False,
            "Flash attention saves memory and traffic. It computes every score.",
        ),
        (
            "About threefold: half of the work is quadratic, half is linear.",
            False,
            "That would hold near n = 6,144.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "You pass a band mask of 128 tokens to a fused exact kernel, n = 8192, and it is no faster than before. Why?",
    [
        (
            "The softmax needs all scores of a row, also the masked ones.",
            False,
            "A masked score has weight 0; blocks that hold only such scores can be left out.",
        ),
        (
            "A window saves memory, not time: the products stay the same.",
            False,
            "In blocks it saves time from about 1,200 tokens on, and memory, against the mask, from about 4,000.",
        ),
        (
            "The kernel computes all scores, and then hides most of them.",
            True,
            "A mask says what not to use. Only leaving blocks out says what not to compute.",
        ),
        (
            "At this length the rest of the layer takes most of the time.",
            False,
            "Timed was attention alone, far beyond the crossing.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "On an untrained model Performer with 128 features errs 1.5 %, uniform attention 1.6 %. What does that say about the trained one?",
    [
        (
            "Performer will err a little less than uniform attention there, too.",
            False,
            "The order does not carry over: in trained MiniLM it errs more, 0.86 against 0.77.",
        ),
        (
            "It will err 1.5 %: how good the estimate is depends on m alone.",
            False,
            "It depends on queries and keys, too: the spread grows with the length of q + k.",
        ),
        (
            "It will err less: training makes maps low-rank, as features need.",
            False,
            "The features estimate a kernel; no low rank is asked for, and the measured error is larger.",
        ),
        (
            "Nearly nothing: scores near 0 make nearly every way look good.",
            True,
            "1.6 % for a way that ignores queries and keys says how little there is to get wrong.",
        ),
    ],
)

# %% jupyter={"source_hidden": true} tags=["remove-input"]
figures.quiz_card(
    "A model trained on texts of 64 loses 2 nats at place 200 of a whole text, and none there under a window of 64. What removes the cause?",
    [
        (
            "Training on texts of 256: then larger distances have been seen.",
            True,
            "The window shows that the place alone does no harm; what is new without it are distances. (For rotary positions it was not run here.)",
        ),
        (
            "Training on texts of 64 that start at later places, up to 448.",
            False,
            "That shows new places, and no distance above 63. It would help sinusoidal positions.",
        ),
        (
            "More steps at 64: the loss inside the training length is still high.",
            False,
            "No number of steps at 64 shows a distance of 150.",
        ),
        (
            "Sinusoidal positions instead: they are defined for every place.",
            False,
            "Defined is not trained: they were the first to fail.",
        ),
    ],
)

# %% [markdown]
# ## Verdicts
#
# The card judges each claim against its sources, this list against our runs. C10.1 fails in its unit and at "impossible". The
# conditions: C10.2 holds for the rank of the maps that are *used*; as an assumption it is Linformer's alone. C10.3 holds of
# BigBird; what the two are made of was read, not run (see the card), and recorded are the layers that three patterns need,
# and a cosine. C10.4 holds for relative positions and ALiBi, in a tiny model, in the sense "does not break"; recorded are
# the nats lost at positions 256 to 511.

# %%
performer, uniform = ours["Performer, 128 features"], ours["uniform attention"]
units = {
    "scores in a head at n = 512": 512 * 512,
    "FLOPs with them, BERT-base": costs(planner.BERT_BASE, 512)["scores"],
    "share of the layer's FLOPs": round(share, 2),
    "MB held by SDPA at n = 65,536, a head": round(longest["bytes"] / 1e6),
}
kinds_of = {
    "rank of a Performer map of 512 tokens, at most": len(directions),
    "its error in MiniLM": round(float(performer), 2),
    "error of uniform attention": round(float(uniform), 2),
}
needed = patterns["layers needed"].iloc[:3]
parts_of = {f"layers needed, {name}": n for name, n in needed.items()}
parts_of |= {"cosine, window ± 32 + [CLS]": round(float(best), 1)}
beyond = losses.loc[["sinusoidal", "rotary", "relative", "ALiBi"]]
beyond = beyond["whole − cut, 256 to 511"]
beyond = {f"nats lost, {name}": value for name, value in beyond.items()}
display(
    claims.record("C10.1", units, "does not hold"),
    claims.record("C10.2", kinds_of, "holds with conditions"),
    claims.record("C10.3", parts_of, "holds with conditions"),
    claims.record("C10.4", beyond, "holds with conditions"),
)

# %% [markdown]
# ## Takeaways
#
# 1. n² counts scores. FLOPs in n² are 4n²d a layer, half of the work at n = 6d: a tenth for BERT-base at 512.
# 2. Exact attention in blocks is quadratic in time and linear in memory. What is linear in both is blind somewhere or
#    computes something else: compare it with uniform attention and random masks, on real queries and keys, and then in the
#    model.
# 3. "Extrapolates" must say: which positions, how far, and against which null model. Here it meant "does not break";
#    nothing here could show "uses more".
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
