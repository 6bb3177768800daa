"""`torch.compile(model, backend="systola")`: small models on the golden model of preset tiny."""

import json

import pytest
import torch
from torch import nn
from torch_backend_helpers import OPTIONS, compiled, pcc, report, rows

import systola
from sw.torch_backend.entry import systola as backend


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)).eval()


@torch.no_grad()
def test_a_model_runs_wholly_on_the_npu_and_the_report_says_so():
    model = mlp()
    fast = compiled(model)
    for _ in range(3):
        x = torch.randn(4, 16)
        assert pcc(fast(x), model(x)) >= 0.99
    found = report(fast)
    totals = found["totals"]
    assert (totals["npu_nodes"], totals["cpu_nodes"], totals["parts"]) == (3, 0, 1)
    assert totals["runs"] == totals["verified"] == totals["calls"] == 3
    assert totals["instructions"]["matrix"] >= 3 and totals["eager_calls"] == 0
    # int16 both ways.
    assert totals["bytes_in"] == 3 * 4 * 16 * 2 and totals["bytes_out"] == 3 * 4 * 8 * 2
    (part,) = found["graphs"][0]["variants"][0]["parts"]
    assert part["calibrations"] == 1 and part["constant_bytes"] >= 16 * 32 + 32 * 8


@torch.no_grad()
def test_batches_are_compiled_once_each():
    model = mlp()
    fast = compiled(model)
    for batch in (2, 3, 5, 3, 2, 5):
        x = torch.randn(batch, 16)
        assert pcc(fast(x), model(x)) >= 0.99
    variants = [v for g in report(fast)["graphs"] for v in g["variants"]]
    # Dynamo gives the first batch a graph of its own, then one for all batches.
    assert sorted(v["shapes"][0][0] for v in variants) == [2, 2, 3, 5]
    assert all(v["npu_nodes"] == 3 for v in variants)


@torch.no_grad()
def test_what_is_unknown_runs_on_the_cpu_between_two_programs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.last(torch.cumprod(torch.relu(self.first(x)), 1))

    torch.manual_seed(0)
    model = Model().eval()
    fast = compiled(model)
    x = torch.randn(4, 8)
    assert pcc(fast(x), model(x)) >= 0.99
    where = {target: (place, reason) for target, place, reason in rows(fast)}
    assert where["aten.cumprod.default"][0] == "cpu"
    assert "no rule" in where["aten.cumprod.default"][1]
    assert {place for place, _ in where.values()} == {"cpu", "npu 0", "npu 1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"configs": "tiny"}, "'configs': no such option .* \\(did you mean 'config'"),
        ({"config": "vast"}, "config='vast': a preset"),
        ({"device": "gpu"}, "device gpu: must be one of rtl, golden"),
        ({"verify": 1}, "verify=1: must be bool"),
        ({"recalibrate": -1}, "recalibrate=-1: must be 0 or more"),
        ({"rows": "often"}, "rows='often': one of auto, never, always"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(Exception, match=message):
        compiled(mlp(), **options)(torch.randn(2, 16))


class Own(nn.Module):
    """`nn.Sequential.compile` compiles nothing: torch skips its frames."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


@torch.no_grad()
def test_reports_of_functions_and_of_modules_that_were_compiled_in_place():
    layer, module = nn.Linear(8, 8), Own()
    # Reports of functions have all graphs with equal options: these are no other test's.
    function = compiled(lambda x: torch.relu(layer(x)), seed=105)
    module.compile(backend=backend, options={**OPTIONS, "seed": 105})
    for one in (function, module):
        one(torch.randn(2, 8))
    assert report(function)["totals"]["npu_nodes"] == 3  # its own, and the module's: equal options
    assert report(module)["totals"]["npu_nodes"] == 1
    text = str(systola.compile_report(module))
    assert "1 nodes on the NPU, 0 on the CPU" in text and "aten.linear" in text
    assert systola.compile_report(module).counters["matrix"] > 0
    json.loads(systola.compile_report(module).to_json())
    with pytest.raises(systola.SystolaError, match=r"Linear is nothing that torch\.compile"):
        systola.compile_report(layer)


@torch.no_grad()
def test_every_call_that_is_given_calibrates():
    calls = [torch.ones(2, 8) * size for size in range(1, 20)]
    fast = compiled(Own(), calibration=calls)
    fast(calls[-1])
    totals = report(fast)["totals"]
    assert (totals["calibrations"], totals["saturated"]) == (1, 0)


@torch.no_grad()
def test_parameters_that_keep_changing_leave_the_graph_to_eager_mode():
    model, x = Own(), torch.randn(2, 8)
    fast = compiled(model)
    for _ in range(11):
        fast(x)
        next(model.parameters()).mul_(0.9)
    totals = report(fast)["totals"]
    # One for the parameters as they were, eight for changes; the other two calls are PyTorch's.
    assert (totals["calls"], totals["calibrations"], totals["eager_calls"]) == (11, 9, 2)


@torch.no_grad()
def test_calibration_by_calls_and_no_fallback():
    calls = [torch.randn(2, 8) * size for size in (1.0, 4.0)]
    fast = compiled(Own(), calibration=calls)
    for x in (torch.randn(2, 8), calls[1]):
        fast(x)
    totals = report(fast)["totals"]
    assert totals["calibrations"] == 1 and totals["saturated"] == 0
    fast(torch.randn(3, 8))
    notes = [note for graph in report(fast)["graphs"] for note in graph["notes"]]
    assert notes == ["no call of the option calibration has this graph's shapes"]
    strict = compiled(lambda x: torch.cummax(x.relu(), 1).values, fallback=False)
    with pytest.raises(Exception, match=r"cummax .* cannot run on the NPU(.|\n)*fallback=True"):
        strict(torch.randn(2, 8))
