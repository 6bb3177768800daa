"""Layers of 16 bits: their integers on the device, their accuracy, how they are chosen."""

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import systola
from spec import preset
from sw.cli.main import main
from sw.compiler.errors import CompileError
from sw.compiler.frontend.capture import Captured, capture
from sw.compiler.frontend.importing import import_graph
from sw.compiler.frontend.ports import Imported
from sw.compiler.frontend.quantization.precision import Precision, precision
from sw.compiler.frontend.quantization.sensitivity import losses
from sw.measure.accuracy import floats, integers, on_device
from sw.models.catalog import pcc
from sw.models.weights import seeded
from sw.runtime.session import DeviceOptions

Calls = list[tuple[torch.Tensor, ...]]


class _Kinds(nn.Module):
    """A layer of each kind that can read 16 bits: padded, strided, by channel, by group, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, 2, 1)
        self.depthwise = nn.Conv2d(12, 12, 5, 2, 2, groups=12)
        self.grouped = nn.Conv2d(12, 12, 3, 1, 1, groups=2)
        self.point = nn.Conv2d(12, 20, 1)
        self.head = nn.Linear(20, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.silu(self.first(x))
        x = nn.functional.hardswish(self.depthwise(x))
        x = x + torch.relu(self.grouped(x))
        y: torch.Tensor = self.head(nn.functional.silu(self.point(x)).mean((2, 3)))
        return y


@lru_cache(maxsize=1)
def _kinds() -> tuple[Captured, Calls]:
    with seeded(11):
        module, data = _Kinds().eval(), torch.randn(24, 3, 17, 14)
    samples = [(sample,) for sample in data.split(1)]
    return capture(module, samples[0]), samples


def _imported(wanted: Precision) -> Imported:
    captured, samples = _kinds()
    return import_graph(captured.graph, samples[:12], precision=wanted, name="kinds")


def _error(imported: Imported) -> float:
    captured, samples = _kinds()
    each = [pcc(floats(captured.graph, s)[0], integers(imported, s)[0]) for s in samples[12:]]
    return 1 - float(np.mean(each))


def test_every_kind_of_layer_reads_16_bits_with_a_fraction_of_the_error() -> None:
    narrow, wide = _imported(precision()), _imported(precision(["*=int16"]))
    assert [each.width for each in wide.layers.values()] == ["int16"] * 5
    assert not any(each.width != "int8" for each in narrow.layers.values())
    assert _error(wide) < 0.2 * _error(narrow)
    assert "at int16, as asked for" in wide.reason


@pytest.mark.parametrize("name", ["tiny", "odd", "default"])
def test_devices_compute_the_integers_of_layers_of_16_bits(name: str) -> None:
    _, samples = _kinds()
    imported = _imported(precision(["*=int16"]))
    row = on_device(imported, samples[12:14], preset(name), DeviceOptions(device="golden"))
    assert row["device_exact"]


class _Products(nn.Module):
    """Products of activations: of rows, with a constant, with a bias, attention with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.mixed = nn.Linear(16, 48), nn.Parameter(torch.randn(2, 6, 6))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q, k, v = self.linear(x).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        last = nn.functional.scaled_dot_product_attention(q[:, :, -1:], k, v)
        causal = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        spelt = (q @ k.transpose(2, 3) / 3).softmax(-1) @ v
        rows = torch.addmm(x[0, :, :8], x[0], x[1].T @ v[1, 0])
        return attended + causal, last * spelt, self.mixed @ x, rows


@lru_cache(maxsize=1)
def _products() -> tuple[Captured, Calls]:
    with seeded(12):
        module = _Products().eval()
        samples = [(torch.randn(2, 6, 16), torch.randn(2, 1, 6, 6)) for _ in range(16)]
    return capture(module, samples[0]), samples


def _of_products(*rules: str) -> Imported:
    captured, samples = _products()
    return import_graph(captured.graph, samples[:12], precision=precision(rules), policy="wide")


def test_weights_of_16_bits_leave_a_fraction_of_the_error() -> None:
    wide, whole = (_imported(precision([f"*={width}"])) for width in ("int16", "int16x16"))
    assert [each.width for each in whole.layers.values()] == ["int16x16"] * 5
    assert _error(whole) < 0.05 * _error(wide)
    assert "at int16x16, as asked for" in whole.reason


def test_products_of_activations_have_16_bits() -> None:
    captured, samples = _products()
    narrow, whole = _of_products(), _of_products("*=int16x16")
    exact = [floats(captured.graph, call) for call in samples[12:]]
    for output in range(4):
        errors = []
        for imported in (narrow, whole):
            got = [integers(imported, call)[output] for call in samples[12:]]
            wanted = [each[output] for each in exact]
            errors.append(np.square(np.subtract(got, wanted)).sum())
        assert errors[1] < 5e-3 * errors[0], output


def test_only_activations_and_weights_together_have_16_bits_in_a_product_of_activations() -> None:
    with pytest.raises(CompileError, match=r"int16: .* cannot read 16 bits") as caught:
        _of_products("scaled_dot_product_attention=int16")
    assert "int16x16" in str(caught.value)
    alone = _of_products("scaled_dot_product_attention=int16x16")
    assert [each.width for each in alone.layers.values()] == ["int8"]
    assert "; scaled_dot_product_attention at int16x16, as asked for" in alone.reason


@pytest.mark.parametrize("seed", range(4))
def test_layers_of_any_widths_read_the_same_values(seed: int) -> None:
    widths = np.random.default_rng(seed).choice(["int8", "int16", "int16x16"], 5)
    names = ("conv2d", "conv2d_1", "conv2d_2", "conv2d_3", "linear")
    mixed = _imported(precision(dict(zip(names, map(str, widths), strict=True))))
    assert {**mixed.widths} == dict(zip(names, widths, strict=True))
    assert _error(mixed) < 1.5 * _error(_imported(precision()))
    _, samples = _kinds()
    row = on_device(mixed, samples[12:13], preset("odd"), DeviceOptions(device="golden"))
    assert row["device_exact"]


@pytest.mark.parametrize("name", ["tiny", "odd", "default"])
def test_devices_compute_the_integers_of_weights_of_16_bits(name: str) -> None:
    for imported, (_, samples) in (
        (_imported(precision(["*=int16x16"])), _kinds()),
        (_of_products("*=int16x16"), _products()),
    ):
        row = on_device(imported, samples[12:14], preset(name), DeviceOptions(device="golden"))
        assert row["device_exact"]


@pytest.mark.rtl
def test_the_rtl_computes_the_integers_of_weights_of_16_bits() -> None:
    _, samples = _products()
    whole = _of_products("*=int16x16")
    assert on_device(whole, samples[12:13], preset("tiny"), DeviceOptions(device="rtl"))[
        "device_exact"
    ]


def test_channels_of_very_different_ranges_have_steps_of_their_own() -> None:
    class Uneven(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(2, 8, 1)
            self.second = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
            with torch.no_grad():
                gains = 10.0 ** -torch.arange(0, 2, 0.25)
                self.first.weight *= gains.view(8, 1, 1, 1)
                self.first.bias *= gains
                self.second.weight /= gains.view(8, 1, 1, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.second(self.first(x))
            return y

    with seeded(3):
        module, samples = Uneven().eval(), [(torch.randn(1, 2, 9, 9),) for _ in range(16)]
    captured = capture(module, samples[0])
    whole = import_graph(
        captured.graph, samples[:12], policy="wide", precision=precision(["*=int16x16"])
    )
    for call in samples[12:]:
        wanted, got = floats(captured.graph, call)[0], integers(whole, call)[0]
        channels = np.abs(np.subtract(got, wanted)).max((0, 2, 3)) / np.abs(wanted).max((0, 2, 3))
        assert channels.max() < 0.003


def test_one_layer_by_its_name_or_its_module() -> None:
    for pattern in ("conv2d_3", "poin*"):
        wide = _imported(precision([f"{pattern}=int16"]))
        assert [name for name, each in wide.layers.items() if each.width != "int8"] == ["conv2d_3"]
    last = _imported(precision(["*=int16", "conv2d*=int8"]))
    assert [name for name, each in last.layers.items() if each.width != "int8"] == ["linear"]


def test_a_name_that_no_layer_has_is_an_error() -> None:
    with pytest.raises(CompileError, match="precision conv2d_9=int16: no layer with weights has"):
        _imported(precision(["conv2d_9=int16"]))


@pytest.mark.parametrize(
    ("rules", "budget", "message"),
    [
        (["conv2d"], "", "precision 'conv2d': must be NAME=int8, NAME=int16 or NAME=int16x16"),
        (["conv2d=int4"], "", "precision conv2d=int4: must be int8, int16 or int16x16"),
        ([], "much", "precision budget 'much': must be a PCC, cycles in %, or both"),
        ([], "99", "precision budget '99': a PCC is at most 1"),
    ],
)
def test_what_is_no_precision_says_why(rules: list[str], budget: str, message: str) -> None:
    with pytest.raises(CompileError, match=message.replace("%", ".")):
        precision(rules, budget)


def test_policy_pt2e_has_no_layers_of_16_bits() -> None:
    captured, samples = _kinds()
    with pytest.raises(CompileError, match="precision: under policy pt2e every layer is int8"):
        import_graph(captured.graph, samples, policy="pt2e", precision=precision(["*=int16"]))


def test_losses_of_layers_add_up_to_that_of_the_model() -> None:
    captured, samples = _kinds()
    for policy in ("wide", "pt2e"):
        imported = import_graph(captured.graph, samples[:12], policy=policy, name="kinds")
        found = losses(captured.graph, imported.layers, samples[12:])
        assert [loss.name for loss in found] == [*imported.layers]
        assert 0.3 < sum(1 - loss.pcc for loss in found) / _error(imported) < 3


def test_a_budget_of_accuracy_takes_layers_until_it_holds() -> None:
    whole = 1 - _error(_imported(precision(["*=int16"])))
    none = 1 - _error(_imported(precision()))
    some = _imported(precision((), f"{(whole + none) / 2:.6f}"))
    taken = sum(each.width != "int8" for each in some.layers.values())
    assert 0 < taken < 5
    assert 1 - _error(some) > none
    assert "chosen for the budget: PCC" in some.reason


def test_a_budget_of_cycles_is_kept() -> None:
    assert not any(e.width != "int8" for e in _imported(precision((), "0.01,1%")).layers.values())
    imported = _imported(precision((), "400%"))
    assert all(each.width == "int16" for each in imported.layers.values())


def test_a_compiled_model_takes_a_precision() -> None:
    with seeded(3):
        module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.SiLU(), nn.Conv2d(4, 4, 1))
    example = (torch.randn(1, 3, 4, 4),)
    compiled = systola.compile(module, example, preset("tiny"), precision={"conv2d_1": "int16"})
    assert [e.width for e in compiled.imported.layers.values()] == ["int8", "int16"]


MODEL = """
import torch
from torch import nn

def make():
    torch.manual_seed(2)
    layers = nn.Conv2d(3, 8, 3), nn.SiLU(), nn.Conv2d(8, 4, 1)
    return nn.Sequential(*layers), (torch.randn(1, 3, 6, 6),)
"""


def _command(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == 0


def test_the_commands_take_a_precision_and_list_layers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    model, report = f"{tmp_path / 'model.py'}:make", tmp_path / "report.json"
    _command("sensitivity", model, "--precision", "conv2d=int16", "--json", str(report))
    row = json.loads(report.read_text())
    assert sorted((r["name"], r["width"]) for r in row["layers"]) == [
        ("conv2d", "int16"),
        ("conv2d_1", "int8"),
    ]
    assert row["layers"] == sorted(row["layers"], key=lambda r: r["pcc"])
    _command("run", model, "--precision-budget", "0.5,10%", "--config", "tiny")
    assert "no layer at int16, chosen for the budget" in " ".join(capsys.readouterr().out.split())


def test_a_quantized_file_takes_no_precision(tmp_path: Path) -> None:
    from sw.models.catalog import ModelError, get_model
    from sw.models.supplied import Supplied

    path = tmp_path / "model.safetensors"
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=r"--precision: .* is quantized already"):
        get_model(str(path), Supplied(precision=precision(["*=int16"])))


def test_a_built_in_network_takes_a_precision(capsys: pytest.CaptureFixture[str]) -> None:
    bounds = []
    for precision_of_all in ("int8", "int16x16"):
        _command("bound", "resnet8", "--precision", f"*={precision_of_all}")
        (line,) = (t for t in capsys.readouterr().out.splitlines() if "layer bound:" in t)
        bounds.append(int(line.split()[2].replace(",", "")))
    assert bounds[1] == 3 * bounds[0]  # high · high, high · low, low · high
