"""Attention maps of any supported model, and attention from scratch."""

from utils.attention.extraction import attention_maps
from utils.attention.maps import AttentionMaps
from utils.attention.multihead import MultiHeadAttention, scaled_dot_product_attention
from utils.attention.rollout import rollout
from utils.attention.statistics import head_statistics

__all__ = [
    "AttentionMaps",
    "MultiHeadAttention",
    "attention_maps",
    "head_statistics",
    "rollout",
    "scaled_dot_product_attention",
]
