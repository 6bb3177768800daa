"""Transposed convolutions of which more than a kernel is cut off."""

import numpy as np
import pytest
import torch
from torch import nn

import systola
from sw.compiler.errors import CompileError

NPU = systola.preset("small")
CUT: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "rows": (nn.ConvTranspose2d(4, 6, (8, 1), (2, 1), (8, 0)), (1, 4, 16, 6)),
    "a kernel": (nn.ConvTranspose2d(4, 6, 3, 2, 3), (1, 4, 9, 9)),
    "more at the begin": (nn.ConvTranspose2d(4, 6, 3, 2, 4, output_padding=1), (1, 4, 9, 9)),
    "much": (nn.ConvTranspose2d(4, 6, 3, 1, 6), (1, 4, 14, 12)),
    "dilated": (nn.ConvTranspose2d(4, 6, 3, 2, 7, dilation=3), (1, 4, 9, 9)),
    "groups": (nn.ConvTranspose2d(4, 4, 2, 2, 2, groups=4), (1, 4, 9, 9)),
    "1-d": (nn.ConvTranspose1d(4, 6, 4, 4, 5), (1, 4, 20)),
}


@pytest.mark.parametrize("name", CUT)
def test_what_is_cut_off_is_not_computed(name: str) -> None:
    torch.manual_seed(0)
    module, shape = CUT[name]
    x = torch.randn(shape)
    program = systola.compile(module.eval(), (x,), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    want = module(x).detach().numpy()
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()


def test_a_result_of_bias_alone_is_refused() -> None:
    module = nn.ConvTranspose2d(4, 6, 1, 3, 1).eval()
    with pytest.raises(CompileError, match="padding cuts off all that the input gives"):
        systola.compile(module, (torch.randn(1, 4, 2, 2),), NPU)
