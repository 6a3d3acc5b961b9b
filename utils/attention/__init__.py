"""Attention maps of any supported model, and attention from scratch."""

from utils.attention.multihead import MultiHeadAttention, scaled_dot_product_attention

__all__ = ["MultiHeadAttention", "scaled_dot_product_attention"]
