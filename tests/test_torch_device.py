"""`torch.device("systola")`: tensors, memory, copies, what is refused, what is reported."""

import copy
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_device_fixtures import device as device

from spec.errors import SystolaError

ROOT = Path(__file__).resolve().parent.parent


def layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))


# Tensors --------------------------------------------------------------------------------------


def test_tensors_go_to_the_device_and_back(device: Any) -> None:
    x = torch.randn(3, 5)
    there = x.to("systola")
    assert there.device == torch.device("systola:0")
    assert torch.equal(there.cpu(), x)
    assert torch.equal(x.systola().to("cpu"), x)
    assert torch.zeros(2, 3, device="systola").tolist() == [[0.0] * 3] * 2
    assert torch.arange(4, device="systola").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
def test_other_types_are_computed_on_the_cpu(device: Any, dtype: torch.dtype) -> None:
    x = torch.ones(4, 8, dtype=dtype, device="systola")
    assert (x * x).cpu().sum() == 32
    assert device.report().npu_calls == 0


def test_views_share_memory(device: Any) -> None:
    x = torch.zeros(4, 6, device="systola")
    x[1:3, ::2].add_(1)
    x.t()[5] = 7
    x.view(2, 12)[0, 0] = 5
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] += 1
    expected[:, 5], expected[0, 0] = 7, 5
    assert torch.equal(x.cpu(), expected)
    assert torch.equal(x[[0, 2]].cpu(), expected[[0, 2]])
    assert torch.equal(x[x > 0.5].cpu(), expected[expected > 0.5])
    assert x[1:3].untyped_storage()._cdata == x.untyped_storage()._cdata


def test_channels_last_and_resized_tensors(device: Any) -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert image.to("systola").stride() == image.stride()
    x = torch.arange(4.0).to("systola")
    assert x.resize_(2, 3).shape == (2, 3)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3]
    out = torch.empty(0, device="systola")
    torch.cumsum(torch.ones(3, device="systola"), 0, out=out)
    assert out.tolist() == [1, 2, 3]


def test_printing_runs_nothing_on_the_npu(device: Any) -> None:
    x = torch.tensor([[1.5, 2.0], [3.0, -4.0]]).repeat(4, 4).to("systola")
    assert str(x).startswith("tensor([[ 1.5000,  2.0000,") and "device='systola:0'" in str(x)
    assert device.report().npu_calls == 0


def test_random_numbers_follow_the_seed(device: Any) -> None:
    torch.manual_seed(3)
    there = torch.randn(5, device="systola")
    torch.manual_seed(3)
    assert torch.equal(there.cpu(), torch.randn(5))


# Memory ---------------------------------------------------------------------------------------


def test_memory_is_freed_with_the_last_tensor(device: Any) -> None:
    before = device.memory_allocated()
    device.reset_peak_memory_stats()
    x = torch.empty(1024, device="systola")
    part = x[10:]
    del x
    assert device.memory_allocated() == before + 4096
    del part
    assert device.memory_allocated() == before
    assert device.max_memory_allocated() == before + 4096


def test_a_loop_of_layers_and_calls_leaks_nothing(device: Any) -> None:
    def step() -> None:
        model = layers().to("systola")
        with torch.no_grad():
            model(torch.randn(4, 16).to("systola"))

    step()
    before = device.memory_allocated()
    for _ in range(5):
        step()
    assert device.memory_allocated() == before


def test_the_memory_of_the_host_outlives_the_tensor(device: Any) -> None:
    before = device.memory_allocated()
    seen = device.host(torch.full((100,), 3.0, device="systola"))
    assert device.memory_allocated() == before + 400
    assert seen.sum() == 300
    del seen
    assert device.memory_allocated() == before


def test_models_are_copied_saved_and_loaded(device: Any) -> None:
    model = layers().to("systola")
    twin = copy.deepcopy(model)
    assert twin[0].weight.device.type == "systola"
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "row": model[0].weight[3]}, file)
    for place, expected in ((None, "systola"), ("cpu", "cpu"), ("systola", "systola")):
        file.seek(0)
        loaded = torch.load(file, map_location=place)
        assert loaded["row"].device.type == expected
        assert torch.equal(loaded["row"].cpu(), model[0].weight[3].detach().cpu())
        layers().load_state_dict(loaded["model"])
        twin.load_state_dict(loaded["model"])
    file = io.BytesIO()
    torch.save(torch.arange(3.0), file)
    file.seek(0)
    assert torch.load(file, map_location="systola").tolist() == [0, 1, 2]


# Computing ------------------------------------------------------------------------------------


def test_a_model_runs_on_the_npu(device: Any) -> None:
    model, x = layers(), torch.randn(4, 16)
    exact = model(x)
    there = model.to("systola")
    with torch.inference_mode():
        found = there(x.to("systola"))
    assert (found.cpu() - exact).abs().max() < 0.02
    rows = {row.name: (row.npu, row.cpu) for row in device.report().rows}
    assert rows == {"linear": (2, {}), "relu": (1, {})}


def test_programs_are_reused_for_values_of_the_same_range(device: Any) -> None:
    model = layers().to("systola")
    x = torch.randn(4, 16)
    with torch.no_grad():
        for factor in (1.0, 0.98, 1.01):
            found = model((x * factor).to("systola"))
            assert (found.cpu() - layers()(x * factor)).abs().max() < 0.02
        linear = device.report().row("linear")
        assert (linear.npu, linear.compiled) == (6, 2)
        model((x * 100).to("systola"))
    assert device.report().row("linear").compiled == 4


def test_changed_parameters_are_quantized_again_and_then_left_to_the_cpu(device: Any) -> None:
    model, x = torch.nn.Linear(16, 8).to("systola"), torch.ones(4, 16)
    with torch.no_grad():
        for i in range(10):
            model.weight.fill_(i + 1.0)
            model.bias.zero_()
            found = model(x.to("systola"))
            assert (found.cpu() - 16 * (i + 1)).abs().max() < 0.02 * 16 * (i + 1)
    row = device.report().row("linear")
    assert row.npu == 8
    assert row.cpu == {"parameters or numbers that change (8 times): compiling them costs more": 2}


def test_results_that_outgrow_their_range_are_computed_again(device: Any) -> None:
    x = torch.full((4, 16), 1.9, device="systola")
    signs = torch.ones(4, 16)
    signs[:, ::2] = -1
    small = (x * signs.to("systola")).cumsum(1)  # 1.9 at most
    assert small.cpu().abs().max() < 2
    mixed = x * signs.sort().values.to("systola")  # the same range, sums of 15.2
    exact = mixed.cpu().cumsum(1)
    assert exact.abs().max() > 15
    assert (mixed.cumsum(1).cpu() - exact).abs().max() < 0.02
    assert device.report().row("cumsum").npu == 2


def test_what_integers_hold_badly_is_computed_on_the_cpu(device: Any) -> None:
    x = torch.linspace(-1.57, 1.57, 32)
    assert torch.equal(x.to("systola").tan().cpu(), x.tan())
    (reason,) = device.report().row("tan").cpu
    assert reason.startswith("too coarse in integers: an error of ")


def test_infinities_are_computed_on_the_cpu_for_that_call(device: Any) -> None:
    x = torch.randn(4, 16)
    x[0, 0] = float("inf")
    assert torch.equal(x.to("systola").sigmoid().cpu(), x.sigmoid())


def test_in_place_operators_run_on_the_npu(device: Any) -> None:
    x = torch.randn(4, 16)
    there = x.to("systola")
    same = there.relu_()
    assert same is there
    assert (there.cpu() - x.relu()).abs().max() < 1e-3
    assert device.report().row("relu").npu == 1


def test_the_report_is_for_people_and_for_programs(device: Any) -> None:
    x = torch.randn(4, 16, device="systola")
    x.relu(), x > 0
    text = str(device.report())
    assert re.search(r"device systola, config tiny, golden: 1 calls on the NPU, 2 on the CPU", text)
    assert "1 on the CPU: a result that is no float32 is computed exactly" in text
    assert device.report().to_dict()["operators"][1]["name"] == "relu"
    device.reset_report()
    assert device.report().rows == ()


# What is refused ------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "index": (
        lambda: torch.zeros(2, device="systola:1"),
        RuntimeError,
        "systola: device index 1: there is one device, systola:0",
    ),
    "index of set_device": (
        lambda: torch.systola.set_device(2),
        RuntimeError,
        "systola: device index 2: there is one device, systola:0",
    ),
    "mixed devices": (
        lambda: torch.zeros(2, device="systola") + torch.zeros(2),
        RuntimeError,
        "Expected all tensors to be on the same device, but found at least two devices, systola:0 "
        "and cpu! (operator aten::add)",
    ),
    "quantized type": (
        lambda: torch.empty(2, device="systola", dtype=torch.qint8),
        RuntimeError,
        "systola: tensors of torch.qint8 cannot be on the device",
    ),
    "option": (
        lambda: torch.systola.set_options(devic="rtl"),
        SystolaError,
        "options: 'devic': no such option of the backend systola (did you mean 'device'?)",
    ),
    "memory": (
        lambda: torch.empty(1 << 50, device="systola"),
        torch.OutOfMemoryError,
        "systola: out of memory: 4,503,599,627,370,496 bytes are wanted, this process can have",
    ),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_is_refused(
    device: Any, case: tuple[Callable[[], Any], type[Exception], str]
) -> None:
    call, kind, text = case
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_without_fallback_an_operator_of_the_cpu_is_an_error(device: Any) -> None:
    device.set_options(config="tiny", fallback=False)
    x = torch.randn(4, 4, 16, device="systola")
    with pytest.raises(SystolaError, match=r"aten\.instance_norm|aten\.nan_to_num"):
        x.nan_to_num()


# PyTorch finds it -----------------------------------------------------------------------------


def run(code: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_only_a_program_that_asks_for_it_gets_the_device() -> None:
    """PyTorch takes a device that it knows for the machine's accelerator."""
    assert run("import systola, torch; print(torch.accelerator.is_available())") == "False"


def test_the_device_is_known_without_the_compiler() -> None:
    code = (
        "import sys, torch, systola; systola.register_torch_device(); "
        "print(torch.device('systola', 0), torch.systola.device_count(), "
        "sorted({'sw.compiler', 'sw.runtime'} & set(sys.modules)))"
    )
    assert run(code) == "systola:0 1 []"


def test_another_package_that_has_the_name_stays_as_it_is() -> None:
    code = (
        "import torch, systola; torch.utils.rename_privateuse1_backend('other')\n"
        "try: systola.register_torch_device()\n"
        "except systola.SystolaError as error: print(error)"
    )
    assert run(code) == (
        "systola: PyTorch keeps one name for a device from outside, and 'other' has taken it in "
        "this process; set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and load one package only"
    )


def test_random_numbers_are_those_of_the_cpu() -> None:
    with torch.random.fork_rng(device_type="systola"):
        torch.manual_seed(1)
        first = torch.rand(4, device="systola").cpu()
    with torch.random.fork_rng(device_type="systola"):
        torch.manual_seed(1)
        assert torch.equal(torch.rand(4), first)
