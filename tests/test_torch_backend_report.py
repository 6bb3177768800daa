"""What a report says: reasons of everything that ran in eager mode, in lines of 80 columns."""

import pytest
import torch
from torch import nn
from torch_backend_helpers import OPTIONS, compiled, pcc, report, rows

import systola
from sw.torch_backend.entry import systola as backend


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first, self.cell, self.last = nn.Linear(8, 8), layer(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.last(self.cell(self.first(x))[0])


class Deep(nn.Module):
    """Operators without a rule inside PyTorch's own containers, with long names."""

    def __init__(self):
        super().__init__()
        inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Sorted())
        self.a_stage_with_a_long_name = nn.Sequential(nn.Sequential(inner, nn.Linear(8, 8)))

    def forward(self, x):
        return self.a_stage_with_a_long_name(x)


class Sorted(nn.Module):
    def forward(self, x):
        return torch.linalg.matrix_exp(x @ x.transpose(0, 1)) @ x


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        print(end="")
        return self.layer(y)


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.jit.script(nn.Linear(8, 8))

    def forward(self, x):
        return self.layer(x)


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, name):
        return self.layer(x) if name else x


class Spectrum(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.of = of
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = torch.fft.fft(self.first(x))
        return self.last(self.of(y))


def lines(fast):
    return str(systola.compile_report(fast)).splitlines()


@torch.no_grad()
def test_complex_numbers_run_on_the_cpu_between_parts_of_the_npu():
    model = Spectrum(torch.angle)
    fast = compiled(model)
    x = torch.randn(4, 8)
    assert pcc(fast(x), model(x)) >= 0.99
    found = rows(fast)
    assert [where for target, where, _ in found if "linear" in target] == ["npu 0", "npu 1"]
    reasons = {target: reason for target, _, reason in found if "complex" in reason}
    assert set(reasons) == {"aten._fft_r2c.default", "aten.angle.default"}
    assert set(reasons.values()) == {"complex64: the NPU computes real numbers"}
    assert report(fast)["totals"]["eager_calls"] == 0


@torch.no_grad()
def test_complex_numbers_with_real_parts_run_on_the_npu():
    model = Spectrum(lambda y: (y * y.conj()).real)
    fast = compiled(model)
    x = torch.randn(4, 8)
    assert pcc(fast(x), model(x)) >= 0.99
    assert {where for _, where, _ in rows(fast)} == {"npu 0"}


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@torch.no_grad()
def test_recurrent_layers_are_traced_and_listed(layer):
    model = Recurrent(layer).eval()
    fast = compiled(model)
    x = torch.randn(3, 2, 8)
    assert pcc(fast(x), model(x)) >= 0.99
    found = report(fast)
    assert found["totals"]["graphs"] == 1 and found["dynamo"] == []
    nodes = found["graphs"][0]["variants"][0]["nodes"]
    assert {"first", "cell", "last"} <= {n["module"] for n in nodes}


@torch.no_grad()
def test_without_fallback_the_error_names_the_module():
    fast = compiled(nn.Sequential(nn.Linear(8, 8), nn.Sequential(Sorted())), fallback=False)
    message = r"linalg_matrix_exp .* cannot run on the NPU(.|\n)*module 1\.0\)(.|\n)*fallback=True"
    with pytest.raises(Exception, match=message):
        fast(torch.randn(4, 8))


@torch.no_grad()
def test_a_branch_on_data_is_in_the_report_in_words():
    layer = nn.Linear(8, 8)

    def branch(x):
        return layer(x) if x.sum() > 0 else x

    fast = compiled(branch, seed=7)  # its graphs are in no report with other options
    fast(torch.ones(4, 8))
    reasons = [row["reason"] for row in report(fast)["dynamo"]]
    assert reasons == ["a branch that depends on the values of a tensor"]
    # Its graphs without parameters are in the report of no model of another file.
    other = compiled(nn.Sequential(nn.Linear(8, 8)), seed=7)
    other(torch.ones(4, 8))
    assert report(other)["totals"]["graphs"] == 1


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:DeprecationWarning")
@torch.no_grad()
def test_what_dynamo_does_not_trace_is_in_the_report():
    for model, kind, reason in (
        (Breaks(), "graph break", "Failed to trace builtin operator"),
        (Scripted(), "skipped", "torch.jit.script/freeze modules unsupported"),
    ):
        fast = compiled(model)
        fast(torch.randn(4, 8))
        (row,) = [r for r in report(fast)["dynamo"] if r["kind"] == kind]
        assert row["reason"].startswith(reason) and __file__ in row["where"]
        text = "\n".join(lines(fast))
        assert "not traced by Dynamo, so in eager mode:" in text and reason in text
    assert lines(fast)[0] == "backend systola: nothing was compiled"


@torch.no_grad()
def test_the_limit_of_recompilations_is_in_the_report():
    fast, other = compiled(Named()), Named()
    x = torch.randn(4, 8)
    with torch._dynamo.config.patch(recompile_limit=2):
        for name in ("a", "b", "c"):
            fast(x, name)
    (row,) = report(fast)["dynamo"]
    assert row["reason"].startswith("Dynamo recompile limit exceeded")
    assert "self.layer(x) if name" in row["where"]
    fast = compiled(other)
    fast(x, "a")
    assert report(fast)["dynamo"] == []


@torch.no_grad()
def test_a_model_that_never_reached_the_backend_says_what_may_be_the_cause():
    module = nn.Sequential(nn.Linear(8, 8))
    compiled(module)  # forgets what other tests have compiled
    module.compile(backend=backend, options=dict(OPTIONS))
    module(torch.randn(2, 8))
    (text,) = lines(module)[:1]
    assert text.startswith("backend systola: no graph has reached the backend.")
    assert "compiled in place" in " ".join(lines(module))
    fast = compiled(Breaks())
    with torch.compiler.set_stance("force_eager"):
        fast(torch.randn(2, 8))
        assert lines(fast) == [
            "backend systola: torch.compiler.set_stance('force_eager') is in force"
        ]


@pytest.mark.parametrize("columns", [60, 80, 160])
@torch.no_grad()
def test_reports_fit_the_width_of_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    fast = compiled(Deep())
    fast(torch.randn(4, 8))
    found = lines(fast)
    assert max(map(len, found)) <= columns
    (row,) = [line for line in found if " linear " in f"{line} "]
    assert "a_stage_with_a_long_name.0.0.0" in row
    assert ("aten.linear" in row) is (columns > 80)
    reason = "operator aten.linalg_matrix_exp.default has no rule"
    assert reason in " ".join(line.strip() for line in found)
    nodes = report(fast)["graphs"][0]["variants"][0]["nodes"]
    own = [n for n in nodes if n["module"] == "a_stage_with_a_long_name.0.0.2"]
    assert own and all(__file__ in n["source"] for n in own)


@torch.no_grad()
def test_the_report_has_predicted_cycles_and_the_time_of_a_call_at_a_clock():
    fast = compiled(nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 8)), clock_mhz=50)
    for _ in range(2):
        fast(torch.randn(3, 32))
    totals = report(fast)["totals"]
    (part,) = report(fast)["graphs"][0]["variants"][0]["parts"]
    assert totals["cycles"] is None and totals["calls"] == totals["runs"] == 2
    assert totals["predicted_cycles"] == part["predicted_cycles"] > totals["layer_bound"] > 0
    assert totals["share"] == totals["layer_bound"] / totals["predicted_cycles"]
    assert totals["ms"] == pytest.approx(totals["predicted_cycles"] / 2 / 50e3)
    assert part["peak_dram_bytes"] >= part["program_bytes"] + part["constant_bytes"] > 0
    (line,) = [text for text in lines(fast) if "cycles predicted" in text]
    assert line.startswith(f"{totals['predicted_cycles']:,} cycles predicted; layer bound ")
    text = " ".join(lines(fast))
    assert "ms a call at 50 MHz" in text


def test_a_clock_that_does_not_tick_is_refused():
    with pytest.raises(systola.SystolaError, match=r"options: clock 0: must be more than 0 MHz"):
        backend(torch.fx.symbolic_trace(nn.ReLU()), [], options={"clock_mhz": 0})
