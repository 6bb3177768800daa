"""Networks in pure JAX with the weights of PyTorch ones, and those: for comparison."""

import os
from collections.abc import Mapping
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

Array = jax.Array
Weights = Mapping[str, Array]


def weights_of(module: nn.Module) -> dict[str, Array]:
    return {k: jnp.asarray(v.numpy()) for k, v in module.state_dict().items()}


# ResNet -----------------------------------------------------------------------------------------


def conv(x: Array, weight: Array, stride: int, layout: str) -> Array:
    """weight: as PyTorch has it."""
    if layout == "NHWC":
        weight = weight.transpose(2, 3, 1, 0)
    numbers = (layout, "OIHW" if layout == "NCHW" else "HWIO", layout)
    pad = (weight.shape[2 if layout == "NCHW" else 0]) // 2
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), [(pad, pad)] * 2, dimension_numbers=numbers
    )


def batch_norm(x: Array, w: Weights, name: str, layout: str) -> Array:
    shape = (1, -1, 1, 1) if layout == "NCHW" else (1, 1, 1, -1)
    mean, var, scale, bias = (
        w[f"{name}.{part}"].reshape(shape)
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * scale + bias


def conv_norm(x: Array, w: Weights, name: str, stride: int, layout: str) -> Array:
    x = conv(x, w[f"{name}.convolution.weight"], stride, layout)
    return batch_norm(x, w, f"{name}.normalization", layout)


def basic_block(x: Array, w: Weights, name: str, stride: int, layout: str) -> Array:
    y = jax.nn.relu(conv_norm(x, w, f"{name}.layer.0", stride, layout))
    y = conv_norm(y, w, f"{name}.layer.1", 1, layout)
    if f"{name}.shortcut.convolution.weight" in w:
        x = conv_norm(x, w, f"{name}.shortcut", stride, layout)
    return jax.nn.relu(x + y)


def resnet(w: Weights, x: Array, depths: tuple[int, ...], layout: str = "NCHW") -> Array:
    """`transformers`' ResNet of basic blocks, on an image of the layout."""
    x = jax.nn.relu(conv_norm(x, w, "resnet.embedder.embedder", 2, layout))
    spatial = (2, 3) if layout == "NCHW" else (1, 2)
    window, strides, pads = [1] * 4, [1] * 4, [(0, 0)] * 4
    for dim in spatial:
        window[dim], strides[dim], pads[dim] = 3, 2, (1, 1)
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, pads)
    for stage, depth in enumerate(depths):
        for layer in range(depth):
            name = f"resnet.encoder.stages.{stage}.layers.{layer}"
            x = basic_block(x, w, name, 2 if stage and not layer else 1, layout)
    x = x.mean(spatial)
    return x @ w["classifier.1.weight"].T + w["classifier.1.bias"]


def torch_resnet(depths: tuple[int, ...], sizes: tuple[int, ...], labels: int) -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(0)
    config = ResNetConfig(
        depths=list(depths), layer_type="basic", hidden_sizes=list(sizes),
        embedding_size=sizes[0], num_labels=labels,
    )  # fmt: skip
    module = ResNetForImageClassification(config).eval()
    with torch.no_grad():
        for name, tensor in module.named_buffers():
            if name.endswith("running_mean"):
                tensor.normal_(0, 0.1)
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
    return module


class Logits(nn.Module):
    """A model of `transformers` that returns a tensor."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x).logits


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
