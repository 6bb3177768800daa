"""`systola diff`: every layer beside PyTorch's int8 graph, and a damaged one named."""

import json
import math

import numpy as np
import pytest
import torch
from compiler_graphs import residual_net
from torch import nn

from spec import preset
from sw.cli.main import main
from sw.compiler.frontend.capture import capture
from sw.compiler.tosa.interpreter import run_graph
from sw.measure.diff import (
    FED_TOLERANCE,
    FREE_TOLERANCE,
    DiffError,
    LayerDiff,
    Tolerance,
    compare_layers,
    fed_graph,
    first_beyond,
    run_free,
    usual_tolerance,
)
from sw.measure.diff_run import diff_rows, pt2e_tensors
from sw.models import catalog as models
from sw.models.build import build
from sw.runtime.golden import GoldenDevice
from sw.runtime.session import DeviceOptions

TINY = preset("tiny")
GOLDEN = DeviceOptions(device="golden")


class Net(nn.Module):
    """Two convolutions, one of them with a residual, pools and a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.body = nn.Conv2d(8, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = self.pool(torch.relu(self.body(x) + x))
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def built():
    torch.manual_seed(5)
    data = np.random.default_rng(5).normal(size=(8, 3, 8, 8)).astype(np.float32)
    calls = [(part,) for part in torch.from_numpy(data).split(1)]
    captured = capture(Net().eval(), calls[0])
    return build(captured, calls[:2], calls, facts={"name": "net"})


def damaged(graph, layer):
    """`graph` with the multipliers of the RESCALE behind operator `layer` a third too large."""
    graph = graph.copy()
    (op,) = [op for op in graph.ops if op.name == layer]
    (rescale,) = [r for r in graph.consumers()[op.outputs[0]] if r.kind == "RESCALE"]
    old = graph.constant(rescale.inputs[1])
    # A third of the shift's step less: 1.5 times as much, within 31 bits.
    shift = graph.constant(rescale.inputs[2]) - 1
    rescale.inputs[1] = graph.add_constant("damaged", (old.astype(np.int64) * 3) // 4, "int32")
    rescale.inputs[2] = graph.add_constant("damaged_shift", shift, "int8")
    return graph


@pytest.mark.parametrize("fed", [False, True])
def test_a_sound_network_is_within_the_tolerance_layer_by_layer(built, fed):
    rows = diff_rows(built, TINY, GOLDEN, fed=fed)
    assert first_beyond(rows, FED_TOLERANCE if fed else FREE_TOLERANCE) is None
    names = [(row.layer, row.module) for row in rows]
    assert names[0] == ("conv2d", "stem") and names[-1] == ("linear", "head")
    assert ("max_pool2d", "pool") in names
    assert [row.elements for row in rows][-1] == 5
    assert all(row.pcc > 0.99 for row in rows)


@pytest.mark.parametrize("layer", ["conv2d", "linear"])
@pytest.mark.parametrize("fed", [False, True])
def test_a_damaged_multiplier_is_named(built, layer, fed):
    graph = damaged(built.model.imported.graph, layer)
    rows = diff_rows(built, TINY, GOLDEN, fed=fed, graph=graph)
    tolerance = FED_TOLERANCE if fed else FREE_TOLERANCE
    beyond = [row.layer for row in rows if row.exceeds(tolerance)]
    assert beyond[0] == layer == first_beyond(rows, tolerance).layer
    # Fed, no other layer suffers from it; free-running, all behind it do.
    assert len(beyond) == (1 if fed or layer == "linear" else len(rows))


def test_command_names_the_layer_and_exits_with_1(built, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "build_model", lambda *_: built)
    path = tmp_path / "d.json"
    arguments = ["diff", "net", "-c", "tiny", "--fed", "--json", str(path)]
    main_exits(arguments, 0)
    assert "PASS  NPU = PyTorch's int8 graph within lsb 1, share 0.001: " in capsys.readouterr().out
    facts = json.loads(path.read_text())
    assert (facts["first_beyond"], facts["fed"], facts["device"]) == (None, True, "golden")
    assert facts["layers"][0]["sqnr_db"] is None or facts["layers"][0]["sqnr_db"] > 20
    imported = built.model.imported
    graph = imported.graph
    try:
        object.__setattr__(imported, "graph", damaged(graph, "conv2d"))
        main_exits(arguments, 1)
    finally:
        object.__setattr__(imported, "graph", graph)
    out = capsys.readouterr().out
    assert "FAIL  NPU = PyTorch's int8 graph: beyond lsb 1, share 0.001 first in layer conv2d " in (
        out
    )
    assert "(module stem)" in out and "test_diff.py:" in out
    assert json.loads(path.read_text())["first_beyond"] == "conv2d"


def main_exits(arguments, code):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == code


@pytest.mark.rtl
def test_the_rtl_differs_exactly_where_the_golden_model_does(built):
    rtl = diff_rows(built, TINY, DeviceOptions(device="rtl"), fed=False)
    assert rtl == diff_rows(built, TINY, GOLDEN, fed=False)


def test_every_layers_result_is_kept_and_is_what_the_graph_says():
    graph = residual_net()
    rng = np.random.default_rng(1)
    inputs = {
        name: rng.integers(-128, 128, graph.tensors[name].shape, dtype=np.int8)
        for name in graph.inputs
    }
    compilation, kept = run_free(graph, inputs, GoldenDevice(TINY))
    values = run_graph(graph, inputs, keep=True)
    written = [layer.output.tensor for layer in compilation.layers.layers]
    assert set(kept) == set(written) & set(values) | set(graph.outputs) and len(kept) >= 4
    for name, tensor in kept.items():
        assert np.array_equal(tensor, values[name]), name


FLOATS = {
    "images": (Net, torch.ones(1, 3, 8, 8)),
    "rows": (lambda: nn.Sequential(nn.Linear(8, 4), nn.Tanh()), torch.ones(2, 8)),
}


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("name", FLOATS)
def test_under_policy_wide_the_float_graph_is_the_measure(name, fed):
    torch.manual_seed(6)
    make, like = FLOATS[name]
    calls = [(torch.randn_like(like),) for _ in range(3)]
    model = make().eval()
    captured = capture(model, calls[0])
    built = build(captured, calls[:1], calls, facts={"name": name}, policy="wide")
    rows = diff_rows(built, TINY, GOLDEN, fed=fed)
    assert rows[-1].tensor == built.model.imported.outputs[0].name
    assert len(rows) >= (1 if name == "rows" else 4)
    assert first_beyond(rows, usual_tolerance("wide", fed)) is None
    assert min(row.pcc for row in rows) >= 0.99


def test_a_fed_graph_reads_pytorchs_integers_everywhere(built):
    imported = built.model.imported
    cut = fed_graph(imported.graph, imported.quantized)
    cut.verify()
    produced = {out for op in cut.ops for out in op.outputs}
    tensors = {port.name for port in imported.quantized.values()} & produced
    assert set(cut.outputs) == tensors
    assert not any(name in tensors for op in cut.ops for name in op.inputs)
    want = pt2e_tensors(built)
    feeds = {n: want[n.removesuffix(".fed")] for n in cut.inputs}
    found = run_graph(cut, feeds)
    assert all(np.abs(found[n].astype(int) - want[n]).max() <= 1 for n in cut.outputs)


def row(**changes):
    facts = {
        "layer": "l",
        "ops": ("CONV2D",),
        "module": "",
        "source": "",
        "tensor": "t",
        "node": "n",
        "elements": 4000,
        "max_lsb": 1,
        "differing": 4,
        "pcc": 1.0,
        "sqnr_db": 40.0,
    }
    return LayerDiff(**{**facts, **changes})


@pytest.mark.parametrize(
    ("changes", "tolerance", "beyond"),
    [
        ({}, FED_TOLERANCE, False),
        ({"max_lsb": 2}, FED_TOLERANCE, True),
        ({"differing": 5}, FED_TOLERANCE, True),
        ({"elements": 10, "differing": 1}, FED_TOLERANCE, False),
        ({"elements": 10, "differing": 2}, FED_TOLERANCE, True),
        ({"differing": 200, "ops": ("AVG_POOL2D",)}, FED_TOLERANCE, False),
        ({"differing": 201, "ops": ("AVG_POOL2D",)}, FED_TOLERANCE, True),
        ({"max_lsb": 2, "ops": ("AVG_POOL2D",)}, FED_TOLERANCE, True),
        ({"max_lsb": 90, "differing": 4000}, FREE_TOLERANCE, False),
        ({"sqnr_db": 19.9}, FREE_TOLERANCE, True),
        ({"sqnr_db": math.inf}, FREE_TOLERANCE, False),
        ({"max_lsb": 1}, Tolerance(lsb=0), True),
    ],
)
def test_what_a_tolerance_allows(changes, tolerance, beyond):
    assert row(**changes).exceeds(tolerance) is beyond


def test_the_first_layer_in_execution_order_is_named():
    rows = [row(layer="a"), row(layer="b", max_lsb=9), row(layer="c", max_lsb=100)]
    assert first_beyond(rows, FED_TOLERANCE).layer == "b"
    assert first_beyond(rows[:1], FED_TOLERANCE) is None


def test_nothing_to_compare_is_an_error():
    graph = residual_net()
    inputs = {n: np.zeros(graph.tensors[n].shape, np.int8) for n in graph.inputs}
    compilation, kept = run_free(graph, inputs, GoldenDevice(TINY))
    with pytest.raises(DiffError, match="no tensor of the program has a counterpart"):
        compare_layers(compilation, kept, {}, {}, {})
