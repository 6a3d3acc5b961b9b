"""From sums over the rows of maps to a table with a row a head."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

OFFSETS = (-3, -2, -1, 0, 1, 2, 3)
REACH = 16  # the farthest offset that can be a head's best one

Sums = dict[str, Tensor]


def frame_of(
    sums: list[dict[str, Sums]],
    wanted: dict[str, list[int]],
    shared: dict[str, list[int]],
    per_text: bool,
    notices: list[str],
) -> pd.DataFrame:
    """The table out of the sums of each text: added up, or a block a text."""
    blocks = []
    for kind in wanted:
        parts = [text[kind] for text in sums]
        if not per_text:
            parts = [{name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}]
        for index, part in enumerate(parts):
            block = _block(kind, part, shared[kind])
            blocks.append(block.assign(text=index) if per_text else block)
    frame = pd.concat(blocks, ignore_index=True)
    if not frame["best_offset"].isna().any():
        frame["best_offset"] = frame["best_offset"].astype(int)
    frame.attrs["notices"] = list(dict.fromkeys(notices))
    return frame


def _block(kind: str, part: Sums, shared: list[int]) -> pd.DataFrame:
    """Means of one kind: a row a head."""
    n_layers, n_heads = part["tokens"].shape
    rows = part["tokens"]
    nothing = torch.full_like(rows, torch.nan)
    place = torch.cartesian_prod(torch.arange(n_layers), torch.arange(n_heads))
    columns = {
        "tokens": rows,
        "entropy": part["entropy"] / rows,
        "normalized_entropy": part["normalized_entropy"] / part["choices"],
        "distance": part["distance"] / rows if "distance" in part else nothing,
        "sink_share": part["sink_share"] / part["sink_rows"],
        "self_share": nothing,
        "best_offset": nothing,
        "best_offset_share": nothing,
    }
    shares = {f"{name}_{offset}": nothing for name in ("offset", "argmax") for offset in OFFSETS}
    if kind != "cross":
        highest = part["argmax"].max(-1)
        columns["best_offset"] = (highest.indices - REACH).double()
        columns["best_offset_share"] = highest.values / rows
        shares |= {f"offset_{offset}": part["offsets"][..., i] / rows for i, offset in enumerate(OFFSETS)}
        shares |= {f"argmax_{offset}": part["argmax"][..., offset + REACH] / rows for offset in OFFSETS}
        columns["self_share"] = shares["offset_0"]
    names = [name.removeprefix("more:") for name in part if name.startswith("more:")]
    more = {name: part[f"more:{name}"] / part[f"rows:{name}"] for name in names}
    frame = pd.DataFrame({name: each.flatten().numpy() for name, each in (columns | shares | more).items()})
    gone = part["entropy"].isnan().flatten().numpy()  # removed heads: no rows, no values
    frame.loc[gone] = torch.nan
    frame.loc[gone, "tokens"] = 0
    frame.insert(0, "kind", kind)
    frame.insert(1, "layer", place[:, 0].numpy())
    frame.insert(2, "head", place[:, 1].numpy())
    frame.insert(3, "group", [shared[head] for head in place[:, 1].tolist()])
    return frame.astype({"tokens": int})
