"""Networks in pure JAX with the weights of PyTorch ones, and those: for comparison."""

import os
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from sw.measure.doors.jax_resnet import Array, Logits, Weights, resnet, torch_resnet, weights_of

__all__ = ["Logits", "resnet", "torch_resnet", "weights_of"]

# Transformer --------------------------------------------------------------------------------------


class TorchBlock(nn.Module):
    """Attention, and an MLP with GELU, each behind a layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        y = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = y.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def layer_norm(x: Array, w: Weights, name: str) -> Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(x: Array, w: Weights, name: str) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def block(w: Weights, x: Array, heads: int) -> Array:
    batch, length, width = x.shape
    y = linear(layer_norm(x, w, "norm1"), w, "qkv").reshape(batch, length, 3, heads, -1)
    q, k, v = y[:, :, 0], y[:, :, 1], y[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v).reshape(x.shape)
    x = x + linear(y, w, "out")
    y = jax.nn.gelu(linear(layer_norm(x, w, "norm2"), w, "up"), approximate=False)
    return x + linear(y, w, "down")


# MLP ----------------------------------------------------------------------------------------------


def mlp(w: Weights, x: Array) -> Array:
    x = jax.nn.relu(linear(x, w, "0"))
    x = jax.nn.silu(linear(x, w, "2"))
    return linear(x, w, "4")


def torch_mlp() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 10)
    ).eval()


def exported(function: Any, *args: Any) -> bytes:
    """The portable artifact of a function."""
    return bytes(jax.export.export(jax.jit(function))(*args).mlir_module_serialized)


def torch_of(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(array))
