"""Products of few rows and thousands of columns: no counter of 8 bits is overrun."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import systola


class Mixed(nn.Module):
    """What a chunked state-space model passes from chunk to chunk: 2×2 by 2×(64·128)."""

    def forward(self, weights: Tensor, states: Tensor) -> Tensor:
        both = torch.cat([torch.zeros_like(states)[None], states[None] * 1.5])
        return torch.bmm(weights.exp(), both.transpose(0, 1).flatten(2))


@pytest.mark.parametrize("config", ["default", "small", "tiny"])
def test_column_blocks_of_a_step_are_fewer_than_a_counter_holds(config: str) -> None:
    """512 blocks of 16 columns were one step: 241 and 48 posts before the first was taken."""
    torch.manual_seed(0)
    module, inputs = Mixed().eval(), (torch.randn(2, 2, 2), torch.randn(2, 64, 128))
    program = systola.compile(module, inputs, systola.preset(config), policy="wide")
    (got,) = program.outputs(systola.run(program.image, program.inputs(*inputs)))
    exact = module(*inputs).numpy()
    assert np.abs(np.asarray(got) - exact).max() <= 0.05 * np.abs(exact).max()
