"""Kernels, weights and biases that a network computes; constants taken for the kind of a value."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import systola
from sw.models.catalog import pcc

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(2, 6, 12, 10, generator=GENERATOR)
Y = torch.randn(2, 6, 12, 10, generator=GENERATOR)
FIXED = torch.randn(4, 6, 3, 3, generator=GENERATOR)


class Function(nn.Module):
    """A function of two values, with constants."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("fixed", FIXED)
        self.register_buffer("mean", torch.tensor([0.4, 0.3, 0.2, 0.1, -0.3, 0.5]).view(1, 6, 1, 1))
        self.register_buffer("whole", torch.arange(1, 7))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(self, x, y)


def kernel(y: Tensor, *shape: int) -> Tensor:
    """A kernel made of what goes in."""
    count = int(np.prod(shape))
    return y.reshape(-1)[:count].reshape(shape)


def line(x: Tensor) -> Tensor:
    return x.reshape(2, 6, 120)


def volume(x: Tensor) -> Tensor:
    return x.reshape(2, 6, 4, 3, 10)


COMPUTED = {
    "kernel": lambda m, x, y: functional.conv2d(x, kernel(y, 8, 6, 3, 3), padding=1),
    "kernel of a constant image": lambda m, x, y: functional.conv2d(m.fixed, kernel(y, 5, 6, 2, 2)),
    "kernel and bias": lambda m, x, y: functional.conv2d(
        x, kernel(y, 4, 6, 3, 2), kernel(x, 4), stride=(2, 1), padding=(1, 0), dilation=(1, 2)
    ),
    "kernel of groups": lambda m, x, y: functional.conv2d(x, kernel(y, 4, 3, 3, 3), groups=2),
    "kernel of each channel": lambda m, x, y: functional.conv2d(x, kernel(y, 6, 1, 5, 5), groups=6),
    "a kernel for each sample": lambda m, x, y: functional.conv2d(
        x.reshape(1, 12, 12, 10), y[:, :, :3, :3].reshape(12, 1, 3, 3), padding="same", groups=12
    ),
    "bias": lambda m, x, y: functional.conv2d(x, m.fixed, kernel(y, 4)),
    "1-d": lambda m, x, y: functional.conv1d(line(x), kernel(y, 8, 6, 5), stride=2, padding=2),
    "3-d": lambda m, x, y: functional.conv3d(volume(x), kernel(y, 4, 6, 2, 2, 2), padding=1),
    "transposed": lambda m, x, y: functional.conv_transpose2d(
        x, kernel(y, 6, 4, 3, 3), stride=2, padding=1, output_padding=1
    ),
    "transposed, groups": lambda m, x, y: functional.conv_transpose2d(
        x, kernel(y, 6, 2, 3, 2), kernel(x, 6), stride=(1, 3), groups=3, dilation=(2, 1)
    ),
    "transposed, 1-d": lambda m, x, y: functional.conv_transpose1d(
        line(x), kernel(y, 6, 4, 4), stride=2, padding=1
    ),
    "transposed, 3-d": lambda m, x, y: functional.conv_transpose3d(
        volume(x), kernel(y, 6, 2, 2, 2, 3), stride=(2, 1, 1), padding=(0, 1, 0)
    ),
    "transposed, bias": lambda m, x, y: functional.conv_transpose2d(
        x, m.fixed[:, :3].transpose(0, 1).repeat(2, 1, 1, 1), kernel(y, 4)
    ),
    "linear": lambda m, x, y: functional.linear(x, kernel(y, 8, 10), kernel(x, 8)),
    "bias of linear": lambda m, x, y: functional.linear(
        x, m.fixed.view(-1)[:80].view(8, 10), y[0, 0, :8, 0]
    ),
    "layer norm": lambda m, x, y: functional.layer_norm(x, (10,), y[0, 0, 0], y[0, 0, 1]),
    "layer norm of an image": lambda m, x, y: functional.layer_norm(x, (12, 10), y[0, 0], None),
    "group norm": lambda m, x, y: functional.group_norm(x, 2, y[0, :, 0, 0], y[1, :, 0, 0]),
    "instance norm": lambda m, x, y: functional.instance_norm(x, None, None, None, y[0, :, 0, 0]),
    "batch norm": lambda m, x, y: functional.batch_norm(
        x, m.mean.view(6), m.mean.view(6) ** 2, y[0, :, 0, 0], y[1, :, 0, 0]
    ),
}  # fmt: skip

KINDS = {
    "type_as": lambda m, x, y: x - m.mean.type_as(x) * y,
    "of integers": lambda m, x, y: x * m.whole[None, :, None, None].type_as(x) + y,
    "of bools": lambda m, x, y: x * (m.mean > 0.25).type_as(x) - y,
    "of a part": lambda m, x, y: x[:, :, :3, :3] + m.fixed[:1].type_as(x) - y[:, :, :3, :3],
    "at two sizes": lambda m, x, y: (
        functional.interpolate(x - m.mean.type_as(x), scale_factor=2)
        + m.mean.type_as(x)
        - functional.interpolate(y, scale_factor=2)
    ),
    "of a value": lambda m, x, y: (x > 0).type_as(y) * y,
}


@pytest.mark.parametrize("name", [*COMPUTED, *KINDS])
def test_computed_parameters_are_as_in_pytorch(name: str) -> None:
    module = Function({**COMPUTED, **KINDS}[name]).eval()
    program = systola.compile(module, (X, Y), systola.preset("small"))
    outputs = systola.run(program.image, program.inputs((X.flip(2), Y.flip(3))), device="golden")
    (out,) = program.outputs(outputs)
    want = module(X.flip(2), Y.flip(3)).numpy()
    assert out.shape == want.shape
    assert pcc(np.asarray(out), want) > 0.998


def test_a_large_computed_kernel_is_refused_with_its_size() -> None:
    module = Function(
        lambda m, x, y: functional.conv2d(x.repeat(1, 1, 3, 3), kernel(y, 1, 6, 17, 16))
    )
    x, y = torch.randn(1, 6, 12, 12), torch.randn(1, 6, 30, 30)
    with pytest.raises(systola.CompileError, match=r"kernel of \[17, 16\]: at most 256 elements"):
        systola.compile(module.eval(), (x, y), systola.preset("small"))
