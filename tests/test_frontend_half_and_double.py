"""Models that compute in half or double precision, as a whole or in places."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import systola

NPU = systola.preset("small")


class Mixed(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        inner = y.to(self.dtype)
        norm = inner.pow(2).mean(-1, keepdim=True)
        inner = inner * torch.rsqrt(norm + 1e-6) * torch.ones(32, dtype=self.dtype)
        return self.last(inner.type_as(y) + torch.full((32,), 0.25, dtype=self.dtype).to(y.dtype))


def compared(model: object, module: nn.Module, dtype: torch.dtype) -> float:
    x = torch.randn(3, 16)
    program = systola.compile(model, (x.to(dtype),), NPU)
    (got,) = program.outputs(systola.run(program.image, program.inputs(x)))
    want = module.float()(x).detach().numpy()
    return float(np.abs(got - want).max() / np.abs(want).max())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_precision_in_places(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = Mixed(dtype).eval()
    assert compared(module, module, torch.float32) < 0.03


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_exported_programs_of_other_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4)).to(dtype).eval()
    program = torch.export.export(module, (torch.randn(3, 16, dtype=dtype),))
    assert compared(program, module, dtype) < 0.03
