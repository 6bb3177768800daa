"""How many variants of a model are kept, and what the report says of their number."""

import pytest
import torch
from torch import nn
from torch_backend_helpers import compiled, pcc, report


class Model(nn.Module):
    def __init__(self, features=8):
        super().__init__()
        self.layer = nn.Linear(features, features)

    def forward(self, x):
        return torch.relu(self.layer(x))


def counts(fast):
    """(variants that were compiled, variants that are kept) over all graphs of a model."""
    found = report(fast)
    graphs = found["graphs"]
    return found["totals"]["variants"], sum(g["kept"] for g in graphs)


@pytest.mark.parametrize("dynamic", [None, True])
@torch.no_grad()
def test_no_more_variants_are_kept_than_the_option_says(dynamic):
    model = Model()
    fast = compiled(model, variants=2, dynamic=dynamic)
    row = torch.randn(8)
    for batch in (2, 3, 4, 5, 5, 4):
        x = row.repeat(batch, 1)
        assert pcc(fast(x), model(x)) >= 0.99
        assert counts(fast)[1] <= 2
    # The first batch and each other one; the last two are still there when they come back.
    assert counts(fast) == (4, 2)
    fast(torch.randn(2, 8))
    assert counts(fast) == (5, 2)


@torch.no_grad()
def test_one_variant_is_compiled_again_for_every_change_of_shape():
    fast = compiled(Model(), variants=1, dynamic=True)
    for batch in (2, 3, 2, 2):
        fast(torch.randn(batch, 8))
    assert counts(fast) == (3, 1)


@torch.no_grad()
def test_models_of_torch_nn_do_not_push_each_others_variants_out():
    options = {"variants": 1}
    first = compiled(nn.Sequential(nn.Linear(8, 8)), **options)
    second = compiled(nn.Sequential(nn.Tanh(), nn.Linear(8, 4)), **options)
    x = torch.randn(2, 8)
    for _ in range(2):
        first(x), second(x)
    assert counts(first) == (1, 1) and counts(second) == (1, 1)
