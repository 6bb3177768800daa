"""SegNet's upsampling: values go where the maximum of their window was."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import systola
from sw.compiler.errors import CompileError

NPU = systola.preset("small")


class Segment(nn.Module):
    """Two pools down, two unpools up, convolutions between."""

    def __init__(self, kernel: int | tuple[int, int], **pool: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(kernel, return_indices=True, **pool)
        self.unpool = nn.MaxUnpool2d(kernel)
        self.inner = nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(4, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        one, first = self.pool(x)
        two, second = self.pool(one.relu())
        back = self.unpool(self.inner(two), second, output_size=one.shape[-2:])
        return self.last(self.unpool(back, first, output_size=x.shape[-2:]))


@pytest.mark.parametrize("kernel", [2, 3, (1, 2), (2, 3)])
@pytest.mark.parametrize(("size", "up"), [((12, 18), False), ((13, 19), False), ((36, 36), True)])
def test_values_go_where_the_maximum_was(
    kernel: int | tuple[int, int], size: tuple[int, int], up: bool
) -> None:
    torch.manual_seed(0)
    module, x = Segment(kernel, ceil_mode=up).eval(), torch.randn(2, 4, *size)
    program = systola.compile(module, (x,), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    want = module(x).detach().numpy()
    # Where two elements of a window become the same integer, the first one of them wins.
    assert got.shape == want.shape
    far = np.abs(got - want) > 0.04 * np.abs(want).max()
    assert far.mean() < 0.01


def test_equal_elements_leave_one_place() -> None:
    module = Segment(2).eval()
    x = torch.zeros(1, 4, 8, 8)
    program = systola.compile(module, (torch.randn(1, 4, 8, 8),), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    want = module(x).detach().numpy()
    assert np.abs(got - want).max() < 0.04 * max(1.0, np.abs(want).max())


def test_windows_that_overlap_are_refused() -> None:
    for module in (Segment(3, stride=3, padding=1), Segment(1)):
        with pytest.raises(CompileError, match="only the first"):
            systola.compile(module.eval(), (torch.randn(1, 4, 12, 12),), NPU)
