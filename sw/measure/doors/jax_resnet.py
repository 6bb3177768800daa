"""ResNets of basic blocks: PyTorch's of `transformers`, and the same function in pure JAX."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import torch
from torch import nn

Array = jax.Array
Weights = Mapping[str, Array]


def weights_of(module: nn.Module) -> dict[str, Array]:
    """The module's parameters and statistics, by name, as JAX has them."""
    return {k: jnp.asarray(v.numpy()) for k, v in module.state_dict().items()}


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


def resnet(w: Weights, x: Array, depths: Sequence[int], layout: str = "NCHW") -> Array:
    """The logits of `torch_resnet` with these weights, for images of the layout."""
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


def torch_resnet(depths: Sequence[int], sizes: Sequence[int], labels: int) -> nn.Module:
    """`transformers`' network with weights and statistics of seed 0, the same at every call."""
    from transformers import ResNetConfig, ResNetForImageClassification

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = ResNetConfig(
            depths=list(depths), layer_type="basic", hidden_sizes=list(sizes),
            embedding_size=sizes[0], num_labels=labels,
        )  # fmt: skip
        module: nn.Module = ResNetForImageClassification(config).eval()
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
        logits: torch.Tensor = self.module(x).logits
        return logits
