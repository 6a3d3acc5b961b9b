"""Roles of heads by rule, after Voita et al. 2019 (arXiv 1905.09418)."""

from __future__ import annotations

import pandas as pd


def positional_heads(frame: pd.DataFrame, share: float = 0.9) -> pd.DataFrame:
    """The rows of ``head_statistics`` whose greatest weight falls on the token before or after in ``share`` of rows.

    Null model: no head of an untrained model passes. Source: Voita et al. 2019 (arXiv 1905.09418), section 5.1.
    """
    return frame[(frame["best_offset"].abs() == 1) & (frame["best_offset_share"] >= share)]


def roles(frame: pd.DataFrame, share: float = 0.9, sink: float = 0.5) -> pd.Series:
    """A label for each row of ``head_statistics``, by offset and sink rules only.

    "previous token", "next token", "same token": the greatest weight among ordinary keys falls there in ``share`` of
    rows; else "sink": more than ``sink`` of the weight lies on special tokens; else "unlabelled".
    Null model: all heads of an untrained model are unlabelled.
    """
    names = {-1: "previous token", 1: "next token", 0: "same token"}
    labels = frame["best_offset"].map(names).where(frame["best_offset_share"] >= share)
    labels = labels.where(labels.notna(), frame["sink_share"].gt(sink).map({True: "sink", False: "unlabelled"}))
    return labels.rename("role")
