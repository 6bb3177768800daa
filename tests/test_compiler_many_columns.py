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


class Product(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.bmm(a.exp(), torch.relu(b * 1.5))


def _assert_follows(module: nn.Module, inputs: tuple[Tensor, ...], config: str) -> None:
    """On the golden model, which refuses a program that may overrun a counter in any timing."""
    program = systola.compile(module, inputs, systola.preset(config), policy="wide")
    (got,) = program.outputs(systola.run(program.image, program.inputs(*inputs)))
    exact = module(*inputs).numpy()
    assert np.abs(np.asarray(got) - exact).max() <= 0.05 * np.abs(exact).max()


@pytest.mark.parametrize("config", ["default", "small", "tiny"])
def test_column_blocks_of_a_step_are_fewer_than_a_counter_holds(config: str) -> None:
    """512 blocks of 16 columns were one step: 241 and 48 posts before the first was taken."""
    torch.manual_seed(0)
    _assert_follows(Mixed().eval(), (torch.randn(2, 2, 2), torch.randn(2, 64, 128)), config)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(40, 4, 6144), (200, 8, 3000)])
def test_posts_of_the_weight_sequencer_wait_for_what_it_knows(
    rows: int, depth: int, columns: int
) -> None:
    """It runs ahead of the main sequencer, whose waits were taken for its own: 256 posts."""
    torch.manual_seed(0)
    inputs = torch.randn(1, rows, depth), torch.randn(1, depth, columns)
    _assert_follows(Product().eval(), inputs, "tiny")
