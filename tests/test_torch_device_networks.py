"""Networks on `torch.device("systola")`: eager, by `torch.compile`, on the simulated hardware."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_device_fixtures import device as device
from transformers import BertConfig, BertModel, ResNetConfig, ResNetForImageClassification

import systola

OPTIONS = {"config": "tiny", "progress": False}


def resnet() -> tuple[torch.nn.Module, torch.Tensor]:
    """Two blocks of ResNet-18; docs/torch_device.md has the figures of all eight."""
    torch.manual_seed(0)
    config = ResNetConfig(
        layer_type="basic", depths=[1, 1], embedding_size=8, hidden_sizes=[8, 16], num_labels=32
    )
    model = ResNetForImageClassification(config).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model, torch.randn(1, 3, 32, 32)


def bert() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        vocab_size=100, max_position_embeddings=32,
    )  # fmt: skip
    return BertModel(config).eval(), torch.randint(0, 100, (2, 12))


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]).double())[0, 1])


@pytest.mark.parametrize("network", [resnet, bert])
def test_eager_network_agrees_with_torch_compile(
    network: Callable[[], tuple[torch.nn.Module, torch.Tensor]], device: Any
) -> None:
    model, x = network()
    with torch.no_grad():
        exact = model(x)[0]
        compiled = torch.compile(copy.deepcopy(model), backend="systola", options=OPTIONS)(x)[0]
        there = model.to("systola")
        first = there(x.to("systola"))[0].cpu()
        again = there(x.to("systola"))[0].cpu()
    assert pcc(first, compiled) > 0.999
    assert pcc(first, exact) > 0.999
    assert (first - again).abs().max() < 0.01  # programs that layers share may have grown
    heavy = {"linear", "conv2d", "batch_norm", "layer_norm", "scaled_dot_product_attention", "gelu"}
    rows = {row.name: row for row in device.report().rows}
    assert all(rows[name].npu and not rows[name].cpu for name in heavy & rows.keys())
    assert len(heavy & rows.keys()) >= 3


class Small(torch.nn.Module):
    """A layer, a buffer, and a tensor that is made where the input is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)
        self.register_buffer("offset", torch.arange(8.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu() + self.offset + torch.ones(8, device=x.device)


def test_torch_compile_takes_a_model_on_the_device(device: Any) -> None:
    torch.manual_seed(0)
    model, x = Small(), torch.randn(4, 16)
    exact, there = model(x), copy.deepcopy(model).to("systola")
    compiled = torch.compile(there, backend="systola", options=OPTIONS)
    with torch.no_grad():
        found = compiled(x.to("systola"))
        assert found.device.type == "systola"
        assert (found.cpu() - exact).abs().max() < 0.02
        report = systola.compile_report(compiled)
        assert (report.cpu_nodes, report.data["totals"]["eager_calls"]) == (0, 0)
        there.layer.weight.mul_(2)
        model.layer.weight.mul_(2)
        assert (compiled(x.to("systola")).cpu() - model(x)).abs().max() < 0.05
    assert device.report().npu_calls == 0


@pytest.mark.rtl
def test_the_simulated_hardware_computes_the_same_integers(device: Any) -> None:
    torch.manual_seed(0)
    model, x = torch.nn.Linear(16, 8).to("systola"), torch.randn(4, 16).to("systola")
    found = []
    for kind in ("golden", "rtl"):
        device.set_options(config="tiny", device=kind, verify=True)
        device.reset_report()
        with torch.no_grad():
            found.append(model(x).cpu())
        (row,) = device.report().rows
        assert row.npu == 1
    assert torch.equal(*found)
    assert row.cycles is not None and 100 < row.cycles < 10_000
