"""LSTM, GRU and RNN, unrolled, against PyTorch on a sequence that calibration has not seen."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.tosa.interpreter import run_graph

STEPS = 16


class Whole(nn.Module):
    """A recurrent network: outputs of all steps, and the last states."""

    def __init__(self, network: nn.RNNBase) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = (state if len(state) > 1 else state[0]) if state else None
        outputs, last = self.network(x, given)
        return (outputs, *(last if isinstance(last, tuple) else (last,)))


NETWORKS: dict[str, tuple[Callable[[], nn.RNNBase], tuple[tuple[int, ...], ...]]] = {
    "lstm of two layers and directions": (
        lambda: nn.LSTM(12, 8, num_layers=2, bidirectional=True),
        ((STEPS, 2, 12), (4, 2, 8), (4, 2, 8)),
    ),
    "lstm with projection": (lambda: nn.LSTM(12, 16, proj_size=6), ((STEPS, 1, 12),)),
    "gru": (lambda: nn.GRU(12, 16, num_layers=2, batch_first=True), ((1, STEPS, 12), (2, 1, 16))),
    "gru without biases, backwards too": (
        lambda: nn.GRU(12, 8, bias=False, bidirectional=True),
        ((STEPS, 12),),
    ),
    "rnn of relu": (lambda: nn.RNN(12, 16, nonlinearity="relu"), ((STEPS, 2, 12),)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_recurrent_networks_follow_pytorch_over_many_steps(name: str) -> None:
    network, shapes = NETWORKS[name]
    torch.manual_seed(1)
    module = Whole(network()).eval()
    samples = [tuple(torch.randn(s) for s in shapes) for _ in range(9)]
    imported = import_model(module, samples[0], calibration=samples[:8], policy="wide")
    arrays = pack_inputs(imported, samples[8])
    results = unpack_outputs(imported, run_graph(imported.graph, arrays))
    with torch.no_grad():
        exact = module(*samples[8])
    matrices = {
        (t.shape, t.data.tobytes())
        for t in imported.graph.tensors.values()
        if t.data is not None and t.dtype == "int8" and len(t.shape) == 4
    }
    assert len(matrices) == sum(".weight_" in n for n, _ in module.named_parameters())
    assert len(results) == len(exact)
    for result, expected in zip(results, exact, strict=True):
        assert result.shape == expected.shape
        pcc = np.corrcoef(result.ravel(), expected.numpy().ravel())[0, 1]
        assert pcc >= 0.995, pcc
