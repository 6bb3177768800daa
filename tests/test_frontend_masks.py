"""Masks of scores that inputs make, by every spelling: what they hide has no weight."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import systola
from sw.models.catalog import pcc

NPU = systola.preset("small")
HIDING = (float("-inf"), torch.finfo(torch.float32).min, -1e9, -65504.0, -10000.0, -100.0)


class Masked(nn.Module):
    """Softmax of scores [2, 12], of which those behind a place [2] are hidden."""

    def __init__(self, way, value):
        super().__init__()
        self.way, self.value = way, value

    def forward(self, scores, place):
        hidden = torch.arange(12)[None] > place[:, None]
        if self.way == "filled":
            scores = scores.masked_fill(hidden, self.value)
        elif self.way == "chosen":
            scores = torch.where(hidden, torch.tensor(self.value), scores)
        elif self.way == "made":
            scores = torch.where(hidden, torch.full_like(scores, self.value), scores)
        elif self.way == "added":
            scores = scores + hidden.float() * self.value
        else:
            scores = (1 - (~hidden).float()) * self.value + scores
        return scores.softmax(-1)


class Attention(nn.Module):
    """Attention with a mask of floats [1, 1, 1, keys] that 0 and 1 make, as BERT has it."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, q, k, v, seen):
        mask = (1.0 - seen[:, None, None].float()) * self.value
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def compared(module, make):
    torch.manual_seed(0)
    calls = [make() for _ in range(8)]
    program = systola.compile(module, calls[0], NPU, calibration=calls)
    x = make()
    (got,) = program.outputs(systola.run(program.image, program.inputs(*x)))
    return got, module(*x).numpy()


CASES = [
    (way, value, size)
    for way in ("filled", "chosen", "made", "added", "added to")
    for value in HIDING[way.startswith("added") :]  # 0 times infinity is no number
    for size in (0.03, 1.0, 30.0)
    if abs(value) > 8 * size  # scores are not as large as what hides them
]


@pytest.mark.parametrize(("way", "value", "size"), CASES)
def test_hidden_scores_have_no_weight(way, value, size):
    def make():
        return size * torch.randn(2, 12), torch.randint(2, 10, (2,))

    got, wanted = compared(Masked(way, value), make)
    assert pcc(got, wanted) > (0.998 if value == -100 else 0.9995)
    assert got[wanted < 1e-30].max() <= 1 / 32767


@pytest.mark.parametrize("value", HIDING[1:])
def test_masks_of_attention(value):
    def make():
        seen = (torch.arange(10) < torch.randint(2, 10, (1, 1))).long()
        return (
            *(torch.randn(1, 2, 6, 8), torch.randn(1, 2, 10, 8), torch.randn(1, 2, 10, 8)),
            seen,
        )

    got, wanted = compared(Attention(value), make)
    assert pcc(got, wanted) > 0.999


class Twice(nn.Module):
    """Two masks that hide the same."""

    def forward(self, scores, place):
        hidden = torch.arange(12)[None] > place[:, None]
        scores = scores + torch.where(hidden, -1e9, 0.0) + torch.where(hidden, -65504.0, 0.0)
        return scores.softmax(-1)


def test_rows_that_two_masks_hide_as_a_whole():
    got, wanted = compared(Twice(), lambda: (torch.randn(2, 12), torch.tensor([-1, 3])))
    assert abs(got[0].sum() - 1) < 0.01
    assert pcc(got[1], wanted[1]) > 0.9995


class Picked(nn.Module):
    """Rows of a table, at places that a low number marks."""

    def forward(self, table, place):
        place = torch.where(place < 3, place, -2000)
        return table[place + 2000 * (place < 0)].softmax(-1)


def test_places_are_no_masks():
    got, wanted = compared(Picked(), lambda: (torch.randn(6, 12), torch.arange(5)))
    assert pcc(got, wanted) > 0.9995
