"""Tiny transformers as TOSA graphs, run in the interpreter, beside PyTorch in float."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sw.compiler.errors import CompileError
from sw.compiler.frontend.importing import import_model
from sw.compiler.frontend.ports import Imported, unpack_outputs
from sw.compiler.frontend.quantization.calls import pack_inputs
from sw.compiler.frontend.quantization.smoothing import Rows
from sw.compiler.tosa.interpreter import run_graph


def pcc(a: Any, b: Any) -> float:
    return float(np.corrcoef(np.ravel(a).astype(float), np.ravel(b).astype(float))[0, 1])


def outputs(imported: Imported, *inputs: torch.Tensor) -> list[Any]:
    return unpack_outputs(imported, run_graph(imported.graph, pack_inputs(imported, inputs)))


def check(
    module: nn.Module, make: Callable[[], tuple[torch.Tensor, ...]], least: float
) -> Imported:
    """Import with four samples, compare on two others; every operator is of the device's set."""
    torch.manual_seed(1)
    module.eval()
    imported = import_model(module, make(), calibration=[make() for _ in range(4)], policy="wide")
    for _ in range(2):
        inputs = make()
        with torch.no_grad():
            exact = module(*inputs)
        (result,) = outputs(imported, *inputs)
        assert result.shape == tuple(exact.shape)
        assert pcc(result, exact.numpy()) >= least
    return imported


def kinds(imported: Imported) -> dict[str, int]:
    found: dict[str, int] = {}
    for op in imported.graph.ops:
        found[op.kind] = found.get(op.kind, 0) + 1
    return found


def _ids(vocabulary: int = 100, length: int = 12) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randint(0, vocabulary, (1, length)),)


class Hidden(nn.Module):
    """A model of `transformers` as tensor to tensor."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.model(x, **self.options)
        return out.logits if hasattr(out, "logits") else out.last_hidden_state


_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def test_bert_runs_wholly_on_integers() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = Hidden(BertModel(BertConfig(vocab_size=100, **_SIZES)))
    imported = check(model, _ids(), 0.999)
    found = kinds(imported)
    assert found["MATMUL"] == 4 and found["CONV2D"] == 12 and found["GATHER"] == 1
    assert imported.inputs[0].dtype == "int32" and imported.outputs[0].dtype == "int16"
    # Residual sums are int16; what linear layers read is int8.
    tensors = imported.graph.tensors
    for op in imported.graph.ops:
        if op.kind in ("CONV2D", "MATMUL"):
            assert tensors[op.inputs[0]].dtype == "int8"


def _last(imported: Imported, kind: str) -> int:
    return max(i for i, op in enumerate(imported.graph.ops) if op.kind == kind)


class Mixed(nn.Module):
    """One head of attention, and a linear layer that reads what it mixes."""

    def __init__(self, outlier: float) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        with torch.no_grad():
            self.qkv.weight[140] *= outlier
            self.out.weight[:, 12] /= outlier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        y: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return y


@pytest.mark.parametrize("outlier", [1.0, 16.0])
def test_what_attention_mixes_is_int8_unless_channels_differ_much(outlier: float) -> None:
    torch.manual_seed(0)
    imported = check(Mixed(outlier), lambda: (torch.randn(1, 40, 64),), 0.97)
    by_kind = {op.kind: op for op in imported.graph.ops[: _last(imported, "MATMUL") + 4]}
    assert by_kind["MUL"].inputs[0] in by_kind["RESHAPE"].outputs
    (out,) = by_kind["RESCALE"].outputs
    assert imported.graph.tensors[out].dtype == ("int8" if outlier == 1.0 else "int16")


def test_gpt2_masks_the_future() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100)
    imported = check(Hidden(GPT2LMHeadModel(config), use_cache=False), _ids(), 0.995)
    (ids,) = _ids()()
    (before,) = outputs(imported, ids)
    ids[0, -1] = (ids[0, -1] + 1) % 100
    (after,) = outputs(imported, ids)
    assert np.array_equal(before[:, :-1], after[:, :-1])
    assert not np.array_equal(before[:, -1], after[:, -1])


def test_llama_has_rotary_positions_rms_norms_and_shared_keys() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=100, num_key_value_heads=2, **_SIZES)
    check(Hidden(LlamaForCausalLM(config), use_cache=False), _ids(), 0.99)


def test_bloom_adds_alibi_to_its_scores() -> None:
    from transformers import BloomConfig, BloomForCausalLM

    torch.manual_seed(0)
    config = BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4)
    check(Hidden(BloomForCausalLM(config), use_cache=False), _ids(), 0.99)


def test_vit_takes_images() -> None:
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    model = Hidden(ViTModel(ViTConfig(image_size=32, patch_size=8, **_SIZES)))
    imported = check(model, lambda: (torch.randn(1, 3, 32, 32),), 0.995)
    assert imported.inputs[0].layout.memory_shape == (1, 32, 32, 3)


class Masked(nn.Module):
    """Attention whose mask is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.reshape(1, -1, 2, 8).transpose(1, 2) for part in self.project(x).chunk(3, -1)
        )
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_a_mask_may_be_an_input() -> None:
    def make() -> tuple[torch.Tensor, ...]:
        mask = torch.zeros(1, 1, 1, 10)
        mask[..., int(torch.randint(4, 9, (1,))) :] = -100.0
        return torch.randn(1, 10, 16), mask

    check(Masked(), make, 0.995)


class Cached(nn.Module):
    """One step of decoding: keys and values of earlier tokens come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        q, k, v = (
            part.reshape(1, 1, 2, 8).transpose(1, 2) for part in self.project(x).chunk(3, -1)
        )
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return nn.functional.scaled_dot_product_attention(q, keys, values), k, v


def test_a_cache_of_keys_and_values_goes_in_and_out() -> None:
    torch.manual_seed(0)
    module = Cached().eval()

    def make() -> tuple[torch.Tensor, ...]:
        return torch.randn(1, 1, 16), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)

    imported = import_model(module, make(), calibration=[make() for _ in range(64)], policy="wide")
    assert [p.dtype for p in imported.inputs] == ["int16", "int8", "int8"]
    inputs = make()
    for result, exact in zip(outputs(imported, *inputs), module(*inputs), strict=True):
        assert pcc(result, exact.detach().numpy()) >= 0.995


class Loud(nn.Module):
    """Rows of very different size, as special tokens make them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 24), nn.Linear(32, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first(x), self.second(x)], -1)


def _loud() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 16, 32) * torch.logspace(-1.5, 1, 16)[None, :, None],)


def _quiet_error(rows: Rows) -> tuple[float, Imported]:
    """Relative error of the quietest rows."""
    torch.manual_seed(0)
    module = Loud().eval()
    imported = import_model(
        module, _loud(), calibration=[_loud() for _ in range(4)], rows=rows, policy="wide"
    )
    x = _loud()
    (result,), exact = outputs(imported, *x), module(*x).detach().numpy()
    quiet = (slice(None), slice(0, 4))
    return float(np.abs(result - exact)[quiet].max() / np.abs(exact)[quiet].max()), imported


def test_rows_of_different_size_get_scales_of_their_own() -> None:
    fixed, _ = _quiet_error("never")
    dynamic, imported = _quiet_error("auto")
    assert dynamic < 0.03 < fixed
    # One row maximum for both layers that read the rows.
    assert kinds(imported)["REDUCE_MAX"] == 1 and kinds(imported)["CONV2D"] == 2


class Chain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.04 * torch.pow(x, 3.0)))) - 0.25


def test_a_chain_of_functions_of_one_value_is_one_table() -> None:
    imported = check(Chain(), lambda: (torch.randn(4, 64) * 3,), 0.9999)
    assert kinds(imported) == {"TABLE": 1, "RESCALE": 1}


def test_scaling_costs_no_operator() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.matmul(x * 0.125, x.transpose(1, 2))

    imported = check(Scaled(), lambda: (torch.randn(2, 8, 16),), 0.999)
    assert set(kinds(imported)) <= {"TRANSPOSE", "MATMUL", "RESCALE", "RESHAPE"}


class Product(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y


def test_int16_holds_values_half_as_large_again_as_the_calibration() -> None:
    calibration = torch.tensor([[1.0, -2.0, 3.0]]), torch.tensor([[3.0, 2.0, 1.0]])
    imported = import_model(Product(), calibration, policy="wide")
    (result,) = outputs(imported, calibration[0] * 1.2, calibration[1] * 1.2)
    np.testing.assert_allclose(result, [[4.32, -5.76, 4.32]], atol=0.001)


class Flattened(nn.Module):
    """A linear layer over rows of all samples, as GPT-2 has it, beside its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.addmm(self.bias, x.view(-1, 8), self.weight)
        return torch.relu(x) + rows.view(x.shape)


def test_operands_of_a_sum_may_be_views_of_another_rank() -> None:
    check(Flattened(), lambda: (torch.randn(2, 3, 8),), 0.999)


class Windows(nn.Module):
    """A linear layer over windows of an image, as Swin has it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.roll(torch.sin(x), (-1, -1), (1, 2))
        return self.layer(x.view(1, 2, 4, 2, 4, 8).transpose(2, 3).reshape(4, 16, 8))


def test_a_linear_layer_reads_windows_whose_channels_have_scales_of_their_own() -> None:
    imported = check(Windows(), lambda: (3 * torch.rand(1, 8, 8, 8),), 0.999)
    assert "REDUCE_MAX" not in kinds(imported)  # one scale a channel, for all rows


class SmallNorm(nn.Module):
    """A layer norm of values that are small beside the root of its eps, 3.2e-3."""

    def __init__(self, largest: float) -> None:
        super().__init__()
        self.largest, self.norm = largest, nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.tanh(x) * self.largest)


@pytest.mark.parametrize("largest", [5e-6, 1e-7])
def test_a_norm_of_values_far_below_its_eps_keeps_their_steps(largest: float) -> None:
    torch.manual_seed(0)
    module, x = SmallNorm(largest).eval(), (torch.randn(1, 64, 16),)
    (result,) = outputs(import_model(module, x, calibration=[x], policy="wide"), *x)
    assert pcc(result, module(*x).detach().numpy()) >= 0.999


def test_an_unknown_operator_is_named_with_its_line() -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumprod(x, 1)

    with pytest.raises(
        CompileError, match=r"aten.cumprod.default is not supported(.|\n)*cumprod\(x"
    ):
        import_model(Odd(), (torch.randn(2, 3),), policy="wide")


def test_calibration_needs_samples() -> None:
    with pytest.raises(CompileError, match="calibration has no samples"):
        import_model(Chain(), (torch.randn(2, 3),), calibration=[], policy="wide")
