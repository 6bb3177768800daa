"""Attention, in the forms that PyTorch has an operator for."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor as T

from sw.frontends.onnx.node import Node
from sw.frontends.onnx.operators.operator import op


def is_plain(node: Node) -> bool:
    """Whether `attention` computes the node; the others are taken apart as ONNX defines them."""
    known = {"is_causal", "kv_num_heads", "q_num_heads", "scale", "softcap"}
    return (
        set(node.attributes) <= known
        and not node.attributes.get("softcap")
        and not any(node.inputs[4:])
        and not any(node.outputs[1:])
        and not (node.attributes.get("is_causal") and any(node.inputs[3:4]))
    )


def _attention(node: Node, q: T, k: T, v: T, mask: T | None = None, *_: Any) -> T:
    """(N, heads, T, size), or (N, T, heads·size) with the numbers of heads as attributes."""
    node.ignore("softcap")
    heads, groups = node.get("q_num_heads"), node.get("kv_num_heads")
    flat = q.dim() == 3
    if flat:
        q, k, v = (_by_head(t, n) for t, n in ((q, heads), (k, groups), (v, groups)))
    causal, scale = bool(node.only("is_causal", 0, 1)), node.get("scale")
    y = F.scaled_dot_product_attention(
        q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return y.transpose(1, 2).flatten(2) if flat else y


def _by_head(x: T, heads: int) -> T:
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


ATTENTION = {"Attention": op(_attention)}
