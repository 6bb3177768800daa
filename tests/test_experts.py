"""Mixtures of experts: rows sorted by expert, a product for each group, and back."""

import pytest
import torch
from transformers import MixtralConfig, MixtralModel

from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.tosa.interpreter import run_graph
from sw.models.catalog import pcc

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "vocab_size": 50,
}


@pytest.mark.parametrize("tokens", [1, 6])
@torch.no_grad()
def test_every_token_goes_to_its_own_experts(tokens: int) -> None:
    torch.manual_seed(0)
    model = MixtralModel(MixtralConfig(**SIZES, use_cache=False, initializer_range=0.3)).eval()
    calls = [(torch.randint(0, 50, (1, tokens)),) for _ in range(8)]
    imported = import_model(model, calls[0], calibration=calls, policy="wide")
    for call in calls:
        (got,) = unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, call)))
        assert pcc(got, model(*call).last_hidden_state.numpy()) >= 0.995
