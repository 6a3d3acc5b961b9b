# %% [markdown]
# # Assessment: Analyse
#
# You get a model without its papers: two layers, sixteen heads, notes that it reads. Find out what its heads do, which of them
# are the same, which are needed, and say what you would prune. The check prunes what you say and measures.

# %%
import matplotlib.pyplot as plt
import pandas as pd
import torch

from utils import analyse, claims, nulls, plots
from utils import analyse_exercises as exercises
from utils.attention import attention_maps, head_statistics
from utils.exercises import check
from utils.figures import attention_explorer
from utils.head_audit import spearman
from utils.heads import ablated, heads_of
from utils.importance import ablation_effect
from utils.measures import Spectrum, confidence, effective_rank, needed_rank
from utils.models import untrained
from utils.pruning import order_by, pruning_curve, random_order

plots.use_style()

# %% [markdown]
# ## Objectives
#
# | | |
# |---|---|
# | **Audience** | researchers on Transformers and people who evaluate models, after insights 2 to 5 and 11 and the labs |
# | **Behaviour** | diagnose a model: roles of heads, redundant heads, a pruning recommendation |
# | **Condition** | attention maps, singular values, and ablation, of a model that you do not know; 60 to 75 minutes |
# | **Degree** | five of six checks passed, the floor of quality kept, and 7 of 10 points for the written diagnosis |
#
# | part | minutes | you write |
# |---|---|---|
# | 1–2 The case, a first look | 10 | |
# | 3 Roles | 10 | Exercise N.1 |
# | 4 Duplicates | 12 | Exercise N.2 |
# | 5 Singular values | 10 | Exercise N.3 |
# | 6 What heads do | 12 | Exercise N.4 |
# | 7 Recommendation | 8 | Exercise N.5 |
# | 8 Diagnosis | 12 | Exercise N.6 |
#
# Each exercise ends in a `check`. It says "not attempted yet" until you have written something. What is true of the model is
# stored nowhere: the checks measure it, on 96 notes that this page does not use. (The script that made the model is in the
# repository. Reading it is reading the last page of a detective story.)

# %% [markdown]
# ## 1 The case
#
# The model is a small GPT-2: it reads from left to right and guesses the next word. L0H3 is head 3 of layer 0.

# %%
model, tokenizer = analyse.unknown()
notes = analyse.notes("read")
batch = analyse.batch_of(tokenizer, notes)
print(f"{len(notes)} notes of {batch['input_ids'].shape[1]} words. The first:")
print(notes[0].replace(" . ", " .\n"))

# %%
whole = analyse.loss(model, batch)
fresh = untrained(model)
blank = analyse.loss(fresh, batch)
counts = batch["input_ids"].flatten().bincount() + 1.0
by_frequency = float(-(counts / counts.sum()).log()[batch["input_ids"]].mean())
assert whole < by_frequency / 2 < blank / 2
print(f"loss {whole:.2f} nats a word; untrained {blank:.1f}; ", end="")
print(f"words guessed by frequency {by_frequency:.1f}")

# %% [markdown]
# Look at a few notes before you go on. What follows from what? Which words could nobody guess? A head can only be needed for
# something that can be known.

# %%
with torch.no_grad():
    losses = analyse.token_losses(model(**batch), batch)
by_place = losses.mean(0)[:42].reshape(6, 7)[1:].mean(0)
places = ["name", "place", "noun", "ending", "verb", "adverb", "full stop"]
table = pd.DataFrame({"loss in nats": by_place.numpy()}, index=places)
assert by_place[:3].min() > 0.5 and by_place[3:].max() < 0.1
table.round(1).T

# %% [markdown]
# Four of the seven words of a sentence are known for certain, from something before them. Three are not.
#
# ## 2 A first look
#
# :::{div} predict
# **Predict.** Go through the sixteen heads. Write down, from the pictures alone, three that you would remove and three that
# you would keep at any price. Part 6 will tell you how good pictures are.
# :::

# %% tags=["hide-input"]
maps = attention_maps(model, tokenizer, notes[0])["decoder"]
attention_explorer(
    maps,
    title="Sixteen heads, some sharp and some even: which are needed?",
    layer=0,
    head=0,
    row=30,
    alt="Attention of two layers with eight heads over a note of 50 words, "
    "opened at layer 0, head 0, which reads all words alike.",
)

# %%
# Weights are a distribution over what came before.
assert torch.allclose(maps.weights.sum(-1), torch.ones(2, 8, 50), atol=1e-4)
assert maps.weights.triu(1).max() == 0

# %% [markdown]
# ## 3 Roles
#
# A role is a rule about maps, over many texts. Here are four, in the manner of {cite:t}`voita2019`, who ask for 90 % of the rows.
# The first that applies, in this order, is the role.
#
# 1. `"first token"`: on the first token lies, in the mean over all queries but the first, at least 0.9 of the weight.
# 2. `"offset -k"`: the greatest weight of at least 90 % of the rows lies $k$ tokens back (offset = key − query).
#    Rows count that have a key there: query $i$ has one if $i \ge k$. $k$ goes from 0 (`"offset 0"`) to half the length.
# 3. `"diffuse"`: the entropy of row $i$ over $\ln(i + 1)$, the most it can be, is at least 0.9 in the mean over all queries but the
#    first.
# 4. `"content"`: none of these.
#
# ::::{div} exercise
# **Exercise N.1** · difficulty 2/5 · about 10 minutes · needs part 3
#
# Return the role of one head as a text, such as `"offset -2"`. `maps` has the shape (texts, n, n): row = query, column = key.
# The check tries heads that are made up, then the sixteen heads on notes that you have not seen.
#
# :::{dropdown} Hint
# For offset −k: `maps.argmax(-1)` has the best key of each row; compare it with `torch.arange(n) - k`, from row k on.
# :::
# :::{dropdown} Second hint
# `torch.special.entr(p)` is −p ln p, and 0 for p = 0. Row 0 has one key and no choice.
# :::
# ::::


# %%
def role(maps):
    """The role of a head: maps (texts, n, n) → text."""
    ### BEGIN SOLUTION
    n = maps.shape[-1]
    if maps[:, 1:, 0].mean() >= 0.9:
        return "first token"
    best = maps.argmax(-1)
    for k in range(n // 2):
        hit = best[:, k:] == torch.arange(n - k)
        if hit.double().mean() >= 0.9:
            return f"offset -{k}" if k else "offset 0"
    entropy = torch.special.entr(maps[:, 1:]).sum(-1)
    most = torch.arange(2, n + 1).log()
    return "diffuse" if (entropy / most).mean() >= 0.9 else "content"
    ### END SOLUTION


check("N.1", role, exercises.gives_roles_by_rule)

# %% [markdown]
# The numbers behind the rules, over all notes:

# %%
statistics = head_statistics(model, tokenizer, list(notes))
statistics.index = [
    f"L{a}H{b}" for a, b in statistics[["layer", "head"]].values
]
columns = {
    "sink_share": "on the first token",
    "best_offset": "offset",
    "best_offset_share": "rows at it",
    "normalized_entropy": "entropy, of most",
}
assert (statistics.sink_share > 0.9).sum() >= 3
assert (statistics.normalized_entropy > 0.99).any()
statistics[list(columns)].rename(columns=columns).round(2) + 0.0

# %% [markdown]
# This table counts all rows, also those without a key at the offset, and offsets up to 16. An offset that has 0.02 of the rows is
# none.
#
# A role says where a head looks. It says nothing about what it takes from there, or whether anybody listens.
#
# ## 4 Duplicates
#
# Two heads of a layer are **duplicates** if they read the same tokens *and* say the same of them:
#
# - their maps differ by at most 0.05: mean over rows and texts of the total variation $\tfrac12 \sum_j |P_{ij} - P'_{ij}|$;
# - their products $W_V W_O$ have a cosine of at least 0.9, as vectors.
#
# The product decides, because what a head adds is $P X W_V W_O$. Put any invertible matrix between $W_V$ and $W_O$, and its inverse
# behind it, and both matrices change while the head stays what it is.
#
# ::::{div} exercise
# **Exercise N.2** · difficulty 3/5 · about 12 minutes · needs part 4
#
# Return the pairs (i, j) of heads of one layer that are duplicates. `maps`: (heads, texts, n, n); `values`, the $W_V$: (heads, width,
# $d_h$); `outputs`, the $W_O$: (heads, $d_h$, width). The check tries a layer that is made up, then both layers of the model.
#
# :::{dropdown} Hint
# `products = (values @ outputs).flatten(1)` has one row a head.
# :::
# :::{dropdown} Second hint
# Is a pair with equal maps and cosine 0 a duplicate? One with cosine −1?
# :::
# ::::


# %%
def duplicates(maps, values, outputs):
    """Pairs of heads that read the same tokens and say the same."""
    ### BEGIN SOLUTION
    products = (values @ outputs).flatten(1)
    found = []
    for i in range(len(maps)):
        for j in range(i + 1, len(maps)):
            apart = (maps[i] - maps[j]).abs().sum(-1).mean() / 2
            alike = torch.cosine_similarity(products[i], products[j], dim=0)
            if apart <= 0.05 and alike >= 0.9:
                found.append((i, j))
    return found
    ### END SOLUTION


check("N.2", duplicates, exercises.finds_duplicates)

# %% [markdown]
# To try your function on the model: `read = analyse.maps_of(model, batch)`, and
# `a, b = analyse.factors(model, "value-output")[0]`; then `duplicates(read[0], a, b.mT)` has the pairs of layer 0.
#
# :::{div} speaker-notes
# Expected wrong ways: equal maps taken for duplicates (two heads on the first token, one of which says nothing); $W_V$ compared
# entry by entry (the twins lie in another basis, so their $W_V$ have nothing in common); absolute cosine.
# :::
#
# ## 5 Singular values
#
# :::{div} predict
# **Predict.** Which maps $P$ have the highest effective rank: those of heads that read one fixed place, those that read all
# words alike, or those that search? Is a high rank a sign of importance?
# :::

# %% mystnb={"figure": {"name": "fig-analyse-ranks", "caption": "Effective rank of the maps of 24 notes, one dot a note, bar: mean; grey: null models. Heads that read a fixed place have nearly the rank of a shift, heads on the first token the rank 1. Even causal rows have rank 18 and not 1, because each row has another length. Most heads that search lie where untrained heads do, one lower. The rank shows the shape of a map, and not whether the head is needed."}, "image": {"alt": "Eighteen strips of dots. Heads that read one place, always or mostly, lie between 41 and 50, heads on the first token near 1, the others between 8 and 27. Of two grey strips at the bottom, untrained heads lie around 22 and even rows at 18."}}
read = analyse.maps_of(model, {"input_ids": batch["input_ids"][:24]})
ranks = effective_rank(read)
groups = {analyse.name(h): ranks[h.layer, h.head] for h in heads_of(model)}
null = analyse.maps_of(fresh, {"input_ids": batch["input_ids"][:24]})
groups["untrained"] = effective_rank(null).flatten()
even = torch.ones(50, 50).tril() / torch.arange(1, 51)[:, None]
groups["even rows"] = [float(effective_rank(even))]
plots.strips(
    groups,
    x="effective rank of P, of 50",
    null=["untrained", "even rows"],
    title="The rank of a map shows its shape",
    ax=plt.subplots(figsize=(6.5, 5.6))[1],
);

# %%
# A shift of 50 tokens has rank 50 if it closes to a ring.
shift = effective_rank(nulls.null_maps(50, "shift"))[0]
assert abs(shift - 50) < 1e-6 and ranks.mean(-1).max() > 45
assert ranks.mean(-1).min() < 1.1

# %% [markdown]
# The products of weights do not depend on a text. $W_Q W_K^\top$ says what is compared, $W_V W_O$ what is passed on; each has at
# most $d_h = 16$ singular values that are not zero.
#
# ::::{div} exercise
# **Exercise N.3** · difficulty 2/5 · about 8 minutes · needs part 5
#
# Return the least rank $r$ at which the $r$ greatest singular values of $W_V W_O$ hold a given share of $\sum\sigma^2$. A product of
# zeros needs rank 0. `value`: (width, $d_h$), `output`: ($d_h$, width).
#
# :::{dropdown} Hint
# `torch.linalg.svdvals(value @ output)`, squared, then `cumsum`. Compare in float64 and allow for rounding: 1e-12 of the total.
# :::
# ::::


# %%
def rank_needed(value, output, share):
    """The least rank of W_V W_O that holds a share of Σσ²."""
    ### BEGIN SOLUTION
    sigma = torch.linalg.svdvals(value.double() @ output.double())
    held = sigma.square().cumsum(0)
    if held[-1] == 0:
        return 0
    return int((held < share * held[-1] * (1 - 1e-12)).sum()) + 1
    ### END SOLUTION


check("N.3", rank_needed, exercises.counts_ranks)

# %% [markdown]
# A spectrum is a promise about weights. Whether a head can be *stored* at that rank, the model has to say. For each head: the rank
# that holds 99 % of $\sum\sigma^2$, the size of the product, and what it costs to cut the product to rank 2, or to 0.

# %%
few = {"input_ids": batch["input_ids"][:32]}
start = analyse.loss(model, few)
sigma = analyse.singular_values(model, "value-output")
rows = {}
for h in heads_of(model):
    own = sigma[h.layer, h.head]
    cut = [analyse.loss(analyse.with_ranks(model, {h: r}), few) for r in (2, 0)]
    rows[analyse.name(h)] = {
        "rank for 99 %": int(needed_rank(Spectrum(own), 0.99, power=2)),
        "√Σσ²": float(own.norm()),
        "cost at rank 2": cut[0] - start,
        "cost at rank 0": cut[1] - start,
    }
stored = pd.DataFrame(rows).T
shown = {"rank for 99 %": 0, "√Σσ²": 1}
shown |= {"cost at rank 2": 2, "cost at rank 0": 2}
(stored.round(shown) + 0.0).astype({"rank for 99 %": int})

# %%
# A small product of low rank that counts, and two large ones that do not.
small = stored.loc["L0H7"]
assert small["rank for 99 %"] <= 3 and small["cost at rank 0"] > 0.05
large = stored.loc[["L0H1", "L1H6"]]
assert (large["√Σσ²"] > 4 * small["√Σσ²"]).all()
assert large["cost at rank 0"].max() < 0.01

# %% [markdown]
# Spectrum and cost disagree in both directions. By their spectra nearly all heads need rank 13 to 16, and most of them can be
# cut to 2, or to nothing, for free. For L0H4 the spectrum is right: rank 2 costs 0.38 nats. L0H7 has rank 2, one of the
# smallest products of all, and costs 0.11 when it is gone. So a low rank tells how to store a head. It does not tell whether
# to keep it.
#
# ## 6 What heads do
#
# Switch a head off, everything else as it was, and see how much the loss rises {cite}`michel2019`. A dot is a note.

# %% mystnb={"figure": {"name": "fig-analyse-effects", "caption": "Rise of the loss when one head is switched off, one dot a note, bar: mean of 96 notes; grey: the sixteen heads of an untrained model, one dot each. Three heads cost more than 0.1 nats alone, the other thirteen less than 0.01 each. The spread is wide: without L0H7 some notes lose nothing and others 0.3 nats. Whether the thirteen can go together is another question."}, "image": {"alt": "Seventeen strips of dots. L0H4 lies far to the right, around 0.8. L0H0 lies around 0.15 and L0H7 between 0 and 0.4. All others, and the untrained heads, lie at 0."}}
effects = {}
with torch.no_grad():
    before = analyse.text_losses(model(**batch), batch)
for h in heads_of(model):
    with ablated(model, [h]), torch.no_grad():
        after = analyse.text_losses(model(**batch), batch)
    effects[analyse.name(h)] = (after - before).numpy()
frame = ablation_effect(fresh, [batch], analyse.text_losses)
effects["untrained"] = frame.effect.to_numpy()
plots.strips(
    effects,
    x="rise of the loss without the head, nats a word",
    null=["untrained"],
    title="Alone, three of sixteen heads are needed",
    reference=0.0,
    ax=plt.subplots(figsize=(6.5, 5.4))[1],
);

# %%
mean = pd.Series({each: float(v.mean()) for each, v in effects.items()})
mean = mean.drop("untrained")
assert (mean > 0.1).sum() == 3 and (mean < 0.01).sum() == 13
assert abs(effects["untrained"]).max() < 0.05

# %% [markdown]
# Compare with what you wrote down in part 2. One of the three reads all words alike, one looks like a sink. Heads that are just as
# even, just as sharp or just as fixed on the first token cost nothing.
#
# How well would pictures and weights have told? Rank correlation (Spearman) of three scores with the mean effect, over the
# sixteen heads:

# %%
effect = [float(effects[analyse.name(h)].mean()) for h in heads_of(model)]
scores = {
    "sharp maps (mean greatest weight)": confidence(read).mean(-1).flatten(),
    "effective rank of P": ranks.mean(-1).flatten(),
    "size of W_V W_O": sigma.norm(dim=-1).flatten(),
}
told = {each: spearman(values, effect) for each, values in scores.items()}
assert abs(told["sharp maps (mean greatest weight)"]) < 0.5
assert max(told.values()) < 0.6
told_table = pd.Series(told, name="rank correlation with the effect")
told_table.round(1).to_frame() + 0.0

# %% [markdown]
# Now remove heads one after the other, in the order of what each costs alone, and in random orders:

# %%
frame = ablation_effect(model, [few], analyse.text_losses)
orders = {"cheapest alone first": order_by(frame, "effect")}
orders["random"] = {s: random_order(model, seed=s) for s in range(3)}
steps = [n / 16 for n in (0, 4, 8, 12, 16)]
curve = pruning_curve(
    model, orders, lambda m: analyse.loss(m, few), fractions=steps
)
table = curve.pivot_table("value", ["order", "seed"], "removed", dropna=False)
table = table.dropna(how="all") - start
alone = table.loc["cheapest alone first"].iloc[0]
# Eight heads, none of which costs 0.02 alone, cost much together.
assert frame.effect.nsmallest(8).max() < 0.02 < 0.3 < alone[8]
table.round(2) + 0.0

# %% [markdown]
# The order by single effects breaks before half of the heads are gone, although none of those eight costs 0.02 alone. Two of the
# three random orders do better at that point. Ablation of single heads answers the question "what if this one goes and all others
# stay", and after the first removal that is no longer the question.
#
# ::::{div} exercise
# **Exercise N.4** · difficulty 3/5 · about 10 minutes · needs part 6
#
# Return all heads in an order of removal: each time the head goes without which the loss is least, *given those that are gone*.
# `loss_without(gone)` takes a list of heads and returns the loss without them; `heads` is the list of all.
#
# :::{dropdown} Hint
# A loop over the places of the order; in it, a minimum over the heads that are left: `min(left, key=...)`.
# :::
# ::::


# %%
def removal_order(loss_without, heads):
    """Heads in the order of removal, measured again after each."""
    ### BEGIN SOLUTION
    gone, left = [], list(heads)
    while left:
        best = min(left, key=lambda head: loss_without([*gone, head]))
        gone.append(best)
        left.remove(best)
    return gone
    ### END SOLUTION


check("N.4", removal_order, exercises.orders_by_measuring_again)

# %% [markdown]
# ## 7 Recommendation
#
# *Prune as many heads as you can. On notes that nobody has analysed, the loss may rise by 0.05 nats a word.*
#
# ::::{div} exercise
# **Exercise N.5** · difficulty 4/5 · about 8 minutes · needs parts 3 to 6
#
# Return the heads to prune as a list of (layer, head). The check removes their weights, measures the loss on 96 other notes, and
# then tries whether one head more could go.
#
# :::{dropdown} Hint
# Your order from N.4 works on the model: `removal_order(lambda gone: analyse.loss(model, few, gone), heads_of(model))` takes about
# ten seconds. Where does the loss leave the floor?
# :::
# :::{dropdown} Second hint
# Of duplicates one stays.
# :::
# ::::


# %%
def recommendation():
    """Heads to prune, as (layer, head)."""
    ### BEGIN SOLUTION
    kept = {(0, 0), (0, 4), (0, 6), (0, 7), (1, 7)}
    return [h[:2] for h in heads_of(model) if h[:2] not in kept]
    ### END SOLUTION


check("N.5", recommendation, exercises.recommends_within_the_floor)

# %% [markdown]
# `analyse.loss(model, batch, heads)` gives the loss without some heads, on the notes that you have.
#
# ## 8 Diagnosis
#
# ::::{div} exercise
# **Exercise N.6** · difficulty 3/5 · about 12 minutes · needs all parts
#
# Write the diagnosis for somebody who will run the pruned model, in 80 to 300 words: which heads do what and how you know, which
# are duplicates, which look important and are not, which look idle and are not, what you would prune, and what could be wrong
# with your analysis. Return the heads that you prune, and the text. Write losses as "0.50 nats".
#
# The check reads sentences in these words, as many as you like and at least one of each, and compares them with the model:
#
# - "L9H1 is needed", "L9H1 and L9H2 are needed": without it the loss rises by more than 0.05 nats, alone or after your pruning;
# - "L9H1 is idle": without it alone the loss rises by at most 0.005, and with those that you prune by at most 0.05;
# - "L9H1 and L9H2 are duplicates": by the rule of part 4, pair by pair.
#
# It also looks for the loss of the whole and of the pruned model on the notes to judge by (`analyse.notes("judge")`: only now may
# you look at them), and for chance. What it cannot read, a person marks by the rubric below.
#
# :::{dropdown} Hint
# Each sentence about a head needs a measurement: a map, a product, or an ablation. Say which, and what chance would give.
# `analyse.token_losses` has the loss of every word: at which word does a head help?
# :::
# ::::


# %%
def diagnosis():
    """(heads pruned, text)."""
    ### BEGIN SOLUTION
    text = """
    By maps over 96 notes L0H2 and L0H6 read the word before, L0H4 the word
    three back, L0H1 itself, L0H3, L0H7, L1H2 and L1H5 the first word.
    L0H2 and L0H6 are duplicates, L1H1 and L1H7 are duplicates: equal maps
    and a cosine of 1 between their products. Without either head of L0H2
    and L0H6 the loss stays, without both it rises by 0.66 nats. L0H3 looks
    like L0H7, and L0H3 is idle; L0H7 carries what the endings depend on:
    0.11 nats, in notes of noon and night 0.18. L0H0 reads all words alike;
    L0H0 is needed, most of all for the place (1.1 nats there). L0H1 is idle,
    sharp and large as it is. L0H4 costs 0.84 nats. Heads of an untrained model
    change the loss by 0.03 nats at most. I keep L0H0, L0H4, L0H6, L0H7 and
    L1H7 and prune eleven heads. On notes not used before the loss is
    0.86 nats, and 0.86 nats pruned. Limits: zeros for heads, notes of one
    length and one language. Others may need L0H5 or L1H4, whose task I did
    not find; a rise above 0.05 nats on them would change my mind.
    """
    kept = {(0, 0), (0, 4), (0, 6), (0, 7), (1, 7)}
    return [h[:2] for h in heads_of(model) if h[:2] not in kept], text
    ### END SOLUTION


check("N.6", diagnosis, exercises.says_what_was_measured)

# %% [markdown]
# ## Rubric
#
# | | 0 points | 1 point | 2 points |
# |---|---|---|---|
# | **Roles** | none, or from one picture | by a rule, over many notes | and says that a role is no importance, with an example |
# | **Redundancy** | from maps alone | duplicates by maps and products | and measures that either may go and not both |
# | **Importance** | from attention weights | by ablation | with spread over notes, and a null model beside it |
# | **Recommendation** | none, or the floor is missed | heads to prune, and the loss before and after | and why others stay, on notes not used before |
# | **Limits** | none | one limit of the method | and the measurement that would change the recommendation |
#
# 7 of 10 points pass, with at least 1 in each line. Two people mark without talking and then compare: a line in which they
# differ by 2 is read again together.
#
# :::{div} speaker-notes
# 2 points under *redundancy* need three numbers: what the loss rises by without the one, without the other, without both. Under
# *importance* an answer that ranks heads by sharpness or by the size of products gets 0. Under *recommendation*, "this head
# stays although it looks like that one" is a reason. Why the even head is needed nobody has to explain: it is enough to say
# at which word.
# :::
#
# ## The note's claim
#
# The course note, from which this book grew, asks to diagnose a model from its attention weights and singular values. What
# this notebook found:

# %% tags=["hide-input"]
record = claims.record(
    "C12.4",
    {
        f"rank correlation with effects: {each}": round(value, 1) + 0.0
        for each, value in told.items()
    },
    "holds with conditions",
)
record

# %% [markdown]
# Maps and singular values describe heads, and find duplicates. They do not tell which head is needed: the condition is an
# ablation beside them, measured again after each removal.
#
# ## Takeaways
#
# 1. A role is where a head looks. Two heads with the same map can be one that is idle and one that is needed.
# 2. Duplicates need both, equal maps and equal $W_V W_O$. Either may go, not both: measure again after each removal.
# 3. Sharpness, rank and size of a head are descriptions. Importance is an ablation, with its spread, on notes not used before.
#
# ## References
#
# ```{bibliography}
# :filter: docname in docnames
# :list: bullet
# ```
