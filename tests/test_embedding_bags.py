"""`nn.EmbeddingBag`: rows of equally many indices are gathers; others keep their operator."""

import pytest
import torch
from torch import nn

from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.tosa.interpreter import run_graph


class Weighted(nn.Module):
    """Sums with a factor for each index."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 8, mode="sum")

    def forward(self, indices: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.bag(indices, per_sample_weights=factors)
        return found


class Ragged(nn.EmbeddingBag):
    """Bags of two and three indices."""

    def forward(self, indices: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(indices, torch.tensor([0, 2]))


class LongLast(nn.EmbeddingBag):
    """Bags that begin in equal steps, of which the last holds all that is left."""

    def forward(self, indices: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(indices, torch.arange(0, 6, 3))


INDICES = torch.arange(15).reshape(3, 5)
BAGS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "sum": (nn.EmbeddingBag(20, 8, mode="sum"), (INDICES,)),
    "mean": (nn.EmbeddingBag(20, 8, mode="mean"), (INDICES,)),
    "max": (nn.EmbeddingBag(20, 8, mode="max"), (INDICES,)),
    "factors": (Weighted(), (INDICES, torch.linspace(0.1, 1, 15).reshape(3, 5))),
}


@pytest.mark.parametrize("name", BAGS)
def test_bags_of_equal_length_follow_pytorch(name: str) -> None:
    module, call = BAGS[name]
    imported = import_model(module, call)
    (got,) = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, call)))
    exact = module(*call).detach()
    assert torch.allclose(torch.from_numpy(got), exact, atol=float(exact.abs().max()) / 1000)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (Ragged(20, 8), (INDICES[0],)),
        (LongLast(20, 8), (INDICES.reshape(-1)[:9],)),
        (nn.EmbeddingBag(20, 8, padding_idx=0), (INDICES,)),
    ],
    ids=["ragged", "a longer last bag", "padding"],
)
def test_other_bags_are_refused(module: nn.Module, call: tuple[torch.Tensor, ...]) -> None:
    with pytest.raises(CompileError, match=r"operator aten.embedding_bag\S* is not supported"):
        import_model(module, call)
