"""What the importer says about single nodes, before anything is quantized."""

import re

import pytest
import torch
from torch import nn

from sw.compiler.frontend.capture import capture
from sw.compiler.frontend.quantization.calibrate import fixed_nodes
from sw.compiler.frontend.support import reasons
from sw.models.transformers import build_transformer


def graph_of(function, *inputs):
    class Module(nn.Module):
        def forward(self, *args):
            return function(*args)

    return capture(Module(), inputs, convert=False).graph


def reasons_of(function, *inputs):
    """Reasons by operator, operators that are supported left out."""
    found = reasons(graph_of(function, *inputs))
    return {str(node.target): reason for node, reason in found.items() if reason}


def test_every_operator_of_bert_is_supported():
    network = build_transformer("bert_tiny")
    found = reasons(capture(network.module, network.samples[0]).graph)
    assert len(found) > 50
    assert {n.name: r for n, r in found.items() if r} == {}


def test_what_an_rms_norm_covers_counts_with_it():
    def norm(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    graph = graph_of(norm, torch.randn(2, 8))
    by_target = {str(n.target): r for n, r in reasons(graph, {}).items()}
    assert by_target["aten.rsqrt.default"] == "" and set(by_target.values()) == {""}


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (lambda x: torch.cumprod(x, 1), (torch.randn(2, 3),), "aten.cumprod.default has no rule"),
        (lambda x: x.double() @ x.double().T, (torch.randn(2, 3),), "reads .*float64"),
        (lambda x: x.half() + 1, (torch.randn(2, 3),), "reads .*float16"),
        (lambda x: x @ x, (torch.ones(3, 3).long(),), "int64"),
        (lambda x: x + 1, (torch.arange(3),), ""),
        (lambda x: x + x.T * 2, (torch.randn(3, 3),), ""),
        (lambda x: torch.softmax(x, 0), (torch.randn(3, 3),), ""),
    ],
)  # fmt: skip
def test_reasons_say_what_is_missing(function, inputs, reason):
    found = reasons_of(function, *inputs)
    if not reason:
        assert found == {}
        return
    text = "; ".join(found.values())
    assert re.search(reason, text), found


def test_constants_need_no_rule():
    graph = graph_of(lambda x: x + torch.cumsum(torch.arange(3.0), 0), torch.randn(2, 3))
    assert any("cumsum" in n.name for n in fixed_nodes(graph))
    assert not any(reasons(graph).values())
