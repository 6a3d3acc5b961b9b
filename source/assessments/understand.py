# %% [markdown]
# # Assessment: Understand
#
# You get slides of a talk, tables and figures, and explain what is behind them: in fifty questions, in three exercises, and
# in your own words. Some of what the slides say holds, much of it does not, and you are not told which.

# %%
import pandas as pd
import torch

from utils import fast_weights as fw
from utils import measures, plots, understand
from utils import understand_exercises as exercises
from utils.exercises import check
from utils.questions import questions
from utils.quiz_bank import quiz_bank
from utils.sweeps import sweep, sweep_table

plots.use_style()

# %% [markdown]
# ## Objectives
#
# | | |
# |---|---|
# | **Audience** | IT professionals with a background in machine learning |
# | **Behaviour** | explain ten main properties of multi-head attention |
# | **Condition** | given a research paper or a talk: here slides of a talk with tables and figures; the chapters may be open |
# | **Degree** | at least five explained correctly: asymmetry, routing, pruning, low rank, rank collapse |
#
# These five are insights 1, 2, 3, 5 and 7, marked ● below. An explanation counts as correct with 6 of the 8 points of the
# rubric.
#
# | part | minutes | you write |
# |---|---|---|
# | 1 Fifty questions | 25, or 12 for the five ● | |
# | 2 Eleven sentences of a talk | 10 | Exercise U.1 |
# | 3 What must stand beside it? | 6 | Exercise U.2 |
# | 4 Explain five of eleven | 30 | five explanations |
# | 5 Which points? | 10 | Exercise U.3 |
# | 6 Model answers, marks | 10 | your marks |
#
# Each exercise ends in a `check`. It says "not attempted yet" until you have written something, and then names the mistake.
# No model runs here. Tables and figures are measured on this page or read from the sweeps of the chapters.

# %% [markdown]
# ## 1 Fifty questions
#
# At least four on every insight, in any order you like. Where several answers are right, the question says so. Begin with
# the five of the goal, and go back to a chapter where your first try was wrong.

# %% tags=["hide-input"]
bank = questions()
quiz_bank(
    bank,
    title="What have you understood?",
    groups={"the five of the goal": understand.GOAL},
    alt="Fifty questions on eleven insights, one at a time, "
    "with feedback on every option and a count of right answers.",
)

# %% [markdown]
# :::{div} speaker-notes
# 25 minutes, or 12 for the five of the goal. In class: one question an insight on the projector, hands for each option, then
# the feedback of the option with most hands. Where half of the class is wrong, stop and look at the chapter's figure.
# :::
#
# ## 2 Eleven sentences of a talk
#
# Sentences as they are said in talks, one on each insight. Which hold, which hold with conditions, which do not?
#
# :::{div} predict
# **Predict.** Read them once and write down a number before you begin: how many of the eleven may stand as they are?
# :::

# %%
understand.talk()

# %% [markdown]
# ::::{div} exercise
# **Exercise U.1** · difficulty 3/5 · about 10 minutes · needs the chapters
#
# Judge all eleven: for each sentence a verdict and a reason, such as `{1: ("…", "…"), 2: …}`. A sentence that
# holds goes with "as stated". Of several faults name the one that would be left if the others were mended.
#
# :::{dropdown} Hint
# Ask of each: what was measured, and what does the sentence speak of? What would an untrained model give? Do the two sides
# differ in one thing only?
# :::
# :::{dropdown} Second hint
# Two sentences hold, two hold with conditions. Every reason is needed at least once.
# :::
# ::::


# %%
def verdicts():
    """{number of the sentence: (verdict, reason)}, all eleven."""
    ### BEGIN SOLUTION
    no = "does not hold"
    conditions = "holds with conditions"
    return {
        1: ("holds", "as stated"),
        2: (no, "another quantity"),
        3: (no, "unequal sides"),
        4: (conditions, "one case"),
        5: (no, "no null model"),
        6: (conditions, "condition missing"),
        7: (no, "another quantity"),
        8: (no, "unequal sides"),
        9: (no, "another quantity"),
        10: ("holds", "as stated"),
        11: (no, "one case"),
    }
    ### END SOLUTION


check("U.1", verdicts, exercises.judges_a_talk)

# %% [markdown]
# ## 3 What must stand beside it?
#
# A number says little alone. Seven findings of this book, what is asked about each, and a list of controls. Two of the
# controls are not needed.

# %%
understand.evidence()

# %% [markdown]
# ::::{div} exercise
# **Exercise U.2** · difficulty 2/5 · about 6 minutes · needs the chapters
#
# Choose for each finding the control that answers what is asked, by its name: `{1: "…", 2: "…", …}`.
#
# :::{dropdown} Hint
# A control shares everything with the finding but the one thing that is asked about.
# :::
# ::::


# %%
def beside():
    """{number of the finding: name of its control}, all seven."""
    ### BEGIN SOLUTION
    return {
        1: "fresh weights",
        2: "same width",
        3: "random heads, tuned",
        5: "same sharpness",
        8: "same scale",
        10: "uniform",
        11: "other half",
    }
    ### END SOLUTION


check("U.2", beside, exercises.chooses_controls)

# %% [markdown]
# ## Rubric
#
# Part 4 asks for explanations in your own words. They are marked by this table, 8 points each; part 6 says for every insight
# what two points need.
#
# | | 0 points | 1 point | 2 points |
# |---|---|---|---|
# | **Mechanism** | none, or that of the slide where it is wrong | right, with a gap | right: what is computed, and why the property follows |
# | **Evidence** | none | a number | a number with its null model or control |
# | **Limit** | the slide is repeated | a doubt | the slide's error is corrected, or the condition named |
# | **Source** | none | "a paper" | which paper, or that it is derived or measured, and how far that carries |

# %% [markdown]
# ## 4 Explain five of eleven
#
# Below are eleven stimuli: a slide, mostly with a table or a figure. Slides say what the course note says, whose claims
# this book checks; numbers are our own. Explain **five or more, among them the five ●**, each in four to six sentences: what
# the mechanism is, which evidence there is and what must stand beside it, what the slide gets wrong or leaves out, where it
# comes from. Write before you go on to part 5.

# %% [markdown]
# ### 1 · Asymmetry ●
#
# > **Slide.** $QK^\top = X W_Q W_K^\top X^\top$, and $W_Q \ne W_K$. Therefore attention is asymmetric: a directed graph
# > $i \to j$. With the same weights for both, $W_Q = W_K$, the graph is undirected.
#
# One head with random numbers, 12 tokens. The asymmetry of a matrix is the length of its antisymmetric part, relative to the
# whole: 0 if it is symmetric.

# %% tags=["hide-input"]
generator = torch.Generator().manual_seed(2)
shapes = [(12, 32), (32, 8), (32, 8)]
hidden, w_q, other = (torch.randn(s, generator=generator) for s in shapes)
w_q, other = w_q / 32**0.5, other / 32**0.5
rows = {}
for name, w_k in {"independent": other, "−W_Q": -w_q, "W_Q": w_q}.items():
    scores = (hidden @ w_q) @ (hidden @ w_k).T / 8**0.5
    both = {"scores": scores, "weights": scores.softmax(dim=-1)}
    rows[name] = {k: measures.relative_asymmetry(m) for k, m in both.items()}
table = pd.DataFrame(rows).T.astype(float).rename_axis("W_K")
assert table.scores["independent"] > 0.3
assert table.scores[1:].max() < 1e-5 and table.weights.min() > 0.1
table.round(2).abs()

# %% [markdown]
# ### 2 · Routing ●
#
# > **Slide (Schlag et al., 2021).** Heads do not attend to different parts of the input. Each head preserves almost all
# > information; they differ in how they combine it. So sparse attention is possible.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-understand-probes", "caption": "Share of tokens that a linear probe names right, by layer of MiniLM: from what the attention reads (384 numbers), and from the output of one head (mean and range of heads and splits)."}, "image": {"alt": "Two lines over layers 0 to 5. The residual stream stays near 1. One head lies near 0.3 and falls to 0.1, with a wide band."}}
probes = sweep_table("probes").query("model == 'trained' and offset == 0")
lines = {}
for name, what in {"residual stream": "residual", "one head": "head"}.items():
    rows = probes[probes.what == what]
    rows = rows.pivot_table("accuracy", ["split", "head"], "layer")
    lines[name] = rows.to_numpy()
stream, heads = (values.mean(0) for values in lines.values())
assert stream.min() > 0.9 and heads.max() < 0.4
title = "What a token is: in the stream, and in a head"
plots.layers(lines, y="accuracy", title=title);
# %% [markdown]
# ### 3 · Pruning ●
#
# > **Slide (Voita et al., 2019).** All 48 heads: BLEU 100 %. 17 heads: BLEU 97 %, almost the same. Two thirds of the encoder
# > can be pruned! In practice: compress after training, skip the fine-tuning of heads that are not needed.
#
# Our translator, BLEU on its test sentences:

# %% tags=["hide-input"]
gates = pd.DataFrame(sweep("translator_gates")["gates"])
choices = pd.DataFrame(sweep("translator_choices")["choices"])
untuned = pd.json_normalize(choices.before.tolist()).bleu
random = untuned[(choices.order == "random") & (choices.kept == 10)]
rows = {"as trained": (48, "no", sweep("translator_gates")["full"]["bleu"])}
for row in gates[gates.kept.isin([30, 10])].itertuples():
    rows[f"gates keep {row.kept}"] = (row.kept, "yes", row.bleu)
rows["random choice, 3 seeds"] = (10, "no", random.mean())
table = pd.DataFrame(rows, index=["heads", "tuned", "BLEU"]).T
assert len(random) == 3 and table.BLEU.iloc[-1] < 20 < table.BLEU[:-1].min()
table.assign(BLEU=table.BLEU.astype(float).round(1))

# %% [markdown]
# ### 4 · Encoder and decoder
#
# > **Slide (Michel et al., 2019).** Encoder self-attention: redundant, easily pruned. Cross-attention: aligns source and
# > target, more than 60 % cannot be removed. Decoder self-attention: enforces the order of generation (does the masking).

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-understand-types", "caption": "BLEU of our translator when a growing share of the heads of one type is taken out, those with the smallest importance first. Nothing is trained again."}, "image": {"alt": "Three falling lines from 35 BLEU. Up to 40 percent of the heads they lie close together. At 70 percent encoder and decoder have 27, cross-attention 9."}}
curves = pd.DataFrame(sweep("translator_heads")["curves"])
ranked = curves[(curves.order == "absolute") & (curves.kind != "all")]
bleu = ranked.pivot(index="fraction", columns="kind", values="bleu")
assert bleu.cross[0.7] < 12 < 25 < bleu[["encoder", "decoder"]].loc[0.7].min()
ax = plots.plt.subplots(figsize=(6, 3.4))[1]
for kind in ("encoder", "decoder", "cross"):
    ax.plot(bleu.index, bleu[kind], color=plots.colour(kind), label=kind)
ax.set(xlabel="share of the type's heads out", ylabel="BLEU")
ax.legend(frameon=False)
ax.set_title("Taking heads out, one type at a time");
# %% [markdown]
# ### 5 · Low rank ●
#
# > **Slide (Wang et al., 2020).** $P \approx U_{128} \Sigma_{128} V_{128}^\top$: the first 128 singular values recover 90 % of
# > the information, the other 640 can be ignored. So $O(n^2)$ becomes $O(128\,n)$. In code: `K_proj = K @ W_proj`, of shape
# > (n, 128).

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-understand-spectra", "caption": "Attention maps of one text of 512 tokens: share of the sum of singular values in the first 128, one dot a head, bar: mean of the layer. Line: 90 %."}, "image": {"alt": "Six strips of dots for layers 0 to 5 between 0.37 and 0.99. The last layer lies near 0.98, the others spread around 0.8."}}
spectra = pd.DataFrame(sweep("low_rank")["spectra"])
one_text = spectra[spectra.text == 0]
groups = {f"layer {row.layer}": row.share_1 for row in one_text.itertuples()}
shares = pd.DataFrame(groups)
assert 0.75 < shares.stack().mean() < 0.9 and shares.min().min() < 0.5
label = "share of Σσ in 128 of 512"
title = "Trained heads of MiniLM"
plots.strips(groups, x=label, title=title, reference=0.9);
# %% [markdown]
# ### 6 · Fast weights
#
# > **Slide.** 1991: a slow network writes the weights of a fast one. Without softmax, attention is just that:
# > $y = (\sum_j v_j \otimes k_j)\, q$. The core requirement is that keys are orthogonal; otherwise a query gets a mixture of
# > values.
#
# $n$ pairs of random keys of width 64 and random values. Relative squared error of what is read back; reading nothing costs 1.

# %% tags=["hide-input"]
rows = {}
for n in (32, 64, 128, 512):
    keys, values = torch.randn(2, 8, n, 64, generator=generator)
    keys = keys / keys.norm(dim=-1, keepdim=True)
    read = fw.read(fw.sum_rule(keys, values), keys)
    sharp = fw.softmax_read(keys, values, keys, sharpness=32)
    answers = {"sum of outer products": read, "softmax, sharp": sharp}
    errors = {k: fw.relative_error(a, values) for k, a in answers.items()}
    rows[n] = {name: float(error.mean()) for name, error in errors.items()}
table = pd.DataFrame(rows).T.rename_axis("pairs")
assert table.iloc[2, 0] > 1.5 and table.iloc[:, 1].max() < 0.1
table.round(1)

# %% [markdown]
# ### 7 · Rank collapse ●
#
# > **Slide (Dong et al., 2021).** Stacked attention converges to rank 1: $\operatorname{rank} \propto e^{-cn}$ after $n$
# > layers, near rank 1 at depth 8. Skip connection: required. MLP: required, restores dimensions. LayerNorm: useless.

# %% tags=["hide-input"] mystnb={"figure": {"name": "fig-understand-collapse", "caption": "MiniLM on 16 texts of 128 tokens, whole and with a part cut out: residual, the distance of all tokens to their mean row relative to the size of the state (0: all tokens are the same row). Mean over texts."}, "image": {"alt": "Three lines over 0 to 6 layers passed, from near 1. The whole model stays near 0.9, the one without MLP above 0.7. Without the skip connection the line falls to 0 by layer 3 or 4."}}
parts = pd.DataFrame(sweep("rank_collapse")["combinations"])
parts = parts[parts.weights == "trained"].set_index(["skip", "mlp", "norm"])
cuts = {"whole": (True, True, True), "no MLP": (True, False, True)}
cuts["no skip"] = (False, True, True)
lines = {name: parts["mean"][cut] for name, cut in cuts.items()}
assert min(lines["whole"][-1], lines["no MLP"][-1]) > 0.6
assert lines["no skip"][5] < 1e-3
ax = plots.layers(lines, y="residual", title="Which part keeps tokens apart?")
ax.set_xlabel("layers passed");
# %% [markdown]
# ### 8 · LayerNorm and transfer
#
# > **Slide (Aghajanyan et al., 2021).** BERT on MNIST and CIFAR-10. Freeze everything: 35 %. Freeze, but tune LayerNorm (0.1 %
# > of the parameters): 80 %. Tune everything: 82 %. So LayerNorm alone gives 98 % of the performance.
#
# Our test, from [chapter 8](../chapters/08-layernorm-transfer.ipynb): MiniLM, digits of 8 × 8 pixels, learning rate 0.001 for
# both. Frozen body, four groups of parameters trained: 0.94. All parameters trained: 0.82.
#
# ### 9 · Computation primitives
#
# > **Slide.** A frozen pretrained Transformer with tuned LayerNorm equals a fully tuned one. So the projections to queries,
# > keys and values are ready-made computation blocks. Result: very data-efficient, small data sets are fine.
#
# What is reported: the table sets frozen bodies beside networks trained from scratch; a frozen pretrained body needs 1 to 40
# times fewer steps than a frozen random one; MNIST and CIFAR-10 were used whole {cite}`lu2022` (transcript).
#
# ### 10 · Quadratic cost
#
# > **Slide.** Attention is $O(n^2)$. n = 512: 262K operations, possible. 4096: 16M, a bottleneck. 65K: 4B, impossible. Ways
# > out: low rank (Linformer, Performer); window, global and random attention (BigBird, Longformer); relative positions, which
# > extrapolate beyond the training length.
#
# One layer of width 768 with 12 heads, counted:

# %% tags=["hide-input"]
width, n_heads = 768, 12
lengths = pd.Index([512, 4096, 65536], name="n")
counts = pd.DataFrame(index=lengths)
counts["scores in a head"] = lengths**2
counts["GFLOP in n²"] = (4 * lengths**2 * width / 1e9).round(2)
counts["GFLOP in n"] = (24 * lengths * width**2 / 1e9).round(2)
counts["all scores, GB"] = (2 * n_heads * lengths**2 / 1e9).round(3)
assert counts["GFLOP in n²"][512] < 0.2 * counts["GFLOP in n"][512]
counts

# %% [markdown]
# ### 11 · Open questions
#
# > **Slide.** Is specialisation learned, or due to initialisation? We trained one small model four times from the same
# > weights, with other orders of texts. Head 3 won each time. So initialisation decides, and head 3 is the head that matters.
#
# All our runs: which head of layer 0 looks back most after training, for six initialisations (rows), four orders of texts:

# %% tags=["hide-input"]
runs = pd.DataFrame(sweep("open_questions")["grid"])
runs["winner"] = runs.previous.map(lambda scores: scores.index(max(scores)))
winners = runs.pivot(index="init", columns="order", values="winner")
assert winners.shape == (6, 4) and (winners.loc[2] == 3).all()
assert (winners.nunique(axis=1) > 1).sum() >= 4
winners

# %% [markdown]
# **Your explanations.** Four to six sentences each.
#
# - *Insight 1:* …
# - *Insight 2:* …
# - *Insight 3:* …
# - *Insight 5:* …
# - *Insight 7:* …
# - *And, if you like, another:* …

# %% [markdown]
# :::{div} speaker-notes
# 30 minutes in writing, or 25 aloud in pairs: one explains, the other marks by the rubric, then they change. Likely: the
# slide repeated with other words (limit 0); a number without its null model (evidence 1); "training makes it low-rank".
# To save time, take two of the five in class and the others at home.
# :::
#
# ## 5 Which points?
#
# Now check your reasoning. For each insight six points, of which some belong in a full explanation and some are mistaken.

# %% tags=["hide-input"]
understand.points()

# %% [markdown]
# ::::{div} exercise
# **Exercise U.3** · difficulty 3/5 · about 10 minutes · needs part 4
#
# Name the insights that you have explained, five or more, among them the five of the goal, and for each the letters of *all*
# points that belong in a full explanation: `{1: "ab", 2: "f", …}`.
#
# :::{dropdown} Hint
# A point belongs if it is right *and* somebody who had left it out would have lost marks by the rubric.
# :::
# :::{dropdown} Second hint
# Where a message says that something is missing, look at the row of the rubric that you have not served yet.
# :::
# ::::


# %%
def chosen():
    """{number of the insight: letters of its points}, five or more."""
    ### BEGIN SOLUTION
    return {1: "ade", 2: "bde", 3: "acf", 5: "bce", 7: "acf"}
    ### END SOLUTION


check("U.3", chosen, exercises.makes_its_points)

# %% [markdown]
# ## 6 Model answers, marks
#
# Open an answer when you have written yours. A good explanation need not use its words. Give two points where all of a line
# is there, one where it is there in part.
#
# What the slides are about, in the order of the insights after the first: {cite:t}`schlag2019`, {cite:t}`voita2019`,
# {cite:t}`michel2019`, {cite:t}`wang2020`, {cite:t}`schlag2021`, {cite:t}`dong2021`, {cite:t}`lu2022` and
# {cite:t}`rothermel2021` (8 and 9), {cite:t}`dao2022`, {cite:t}`liu2021`. How each was read stands on the [evidence
# page](../pages/evidence.md).

# %% tags=["hide-input"]
understand.answers()

# %% [markdown]
# Put your marks into the cell: mechanism, evidence, limit, source, 0 to 2 each. `result` says what counts as correct (6 of 8
# points, the mechanism not at 0) and `attrs["missing"]` which of the five are still to be explained. The two rows are an
# example.

# %%
marks = understand.result({1: (2, 2, 1, 1), 2: (0, 2, 2, 2)})
print("still to be explained:", marks.attrs["missing"])
marks

# %% [markdown]
# ## Takeaways
#
# 1. An explanation has four parts: what is computed, what was measured and beside what, what the statement leaves out, and
#    where it comes from.
# 2. Most errors are one of five: another quantity, no null model, unequal sides, one case made a law, a condition left out.
# 3. A slide can be right about a paper and wrong about models: ask which model, which setting, which year.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
