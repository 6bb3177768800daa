"""Relax modules in TVM's virtual machine, with what the NPU takes as programs."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
import tvm
from torch.nn import functional as F
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program
from tvm.script import ir as I
from tvm.script import relax as R
from tvm_cases import cases, module_of

from sw.frontends.delegates.regions import split
from sw.frontends.tvm.operators.table import ROWS
from sw.frontends.tvm.reading import read
from sw.frontends.tvm.survey import loaded, survey
from sw.runtime.session import OptionError
from sw.torch_backend.variant import NotCompiledError
from systola.tvm import TvmError, load, offload

NOT_IN_TVM = {"nn.pixel_shuffle"}
"""Operators that this release of TVM has no kernel for."""


UNOPTIMIZED = {"kind": "llvm", "opt-level": 0}
"""A target that is compiled for in a fraction of the time."""


class Network(torch.nn.Module):
    """Convolutions and a linear layer, a sort that the NPU does not have, a linear layer."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.deep = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.head, self.tail = torch.nn.Linear(8, 10), torch.nn.Linear(10, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        x = (x + self.deep(x)).mean((2, 3))
        return torch.softmax(self.tail(torch.sort(self.head(x)).values), -1)


def image(seed=0):
    return np.random.default_rng(seed).standard_normal((1, 3, 8, 8)).astype(np.float32)


CALLS = [image(seed) for seed in range(4)]


def relax_of(module, *example, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module.eval(), tuple(map(torch.from_numpy, example)))
        return from_exported_program(exported, **options)


def called(machine, *given):
    found = machine["main"](*map(tvm.runtime.tensor, given))
    return found.numpy() if hasattr(found, "numpy") else [each.numpy() for each in found]


def plain(module, *given):
    """What TVM computes without an NPU."""
    return called(
        relax.VirtualMachine(relax.build(module, tvm.target.Target(UNOPTIMIZED)), tvm.cpu()), *given
    )


def places(offloaded):
    return {row["name"]: row["where"] for row in offloaded.report().data["nodes"]}


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return relax_of(Network(), image())


@pytest.fixture(scope="module")
def mixed(network):
    return offload(network, image(), config="tiny", calibration=CALLS, verify=True)


def test_every_operator_has_a_case():
    assert {case.op for case in cases()} == set(ROWS)


def test_every_operator_computes_what_tvms_kernel_does():
    chosen = [case for case in cases() if case.op not in NOT_IN_TVM]
    module, arrays = module_of(chosen)
    found = survey(read(module, "main", {}))
    assert found.why == {}
    (region,) = split(found.flow, {})
    made = loaded(found, region)
    given = dict(zip(found.function.params, map(torch.from_numpy, arrays), strict=True))
    results = made.module(*(given[name] for name in made.inputs))
    named = dict(zip(made.outputs, results, strict=True))
    wanted = plain(module, *arrays)
    for case, name, exact in zip(chosen, found.function.results, wanted, strict=True):
        np.testing.assert_allclose(named[name].numpy(), exact, atol=1e-5, err_msg=case.op)


def test_pixels_are_shuffled_as_in_pytorch():
    module, (x,) = module_of([case for case in cases() if case.op == "nn.pixel_shuffle"])
    found = survey(read(module, "main", {}))
    (region,) = split(found.flow, {})
    made = loaded(found, region).module(torch.from_numpy(x))
    assert torch.equal(made, F.pixel_shuffle(torch.from_numpy(x), 2))


def test_what_the_npu_lacks_runs_in_tvm_between_two_programs(network, mixed):
    x = image(1)
    (found,), (wanted,) = called(mixed.machine(), x), plain(network, x)
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.999
    where = places(mixed)
    assert where["lv18"] == "cpu" and set(where.values()) == {"npu_0", "npu_1", "cpu", "constant"}
    assert mixed.report().bit_exact
    assert "operator argsort has no rule" in str(mixed.report())


def test_a_machine_that_the_user_builds_runs_the_programs(mixed):
    machine = relax.VirtualMachine(relax.build(mixed.module, "llvm"), tvm.cpu())
    assert np.array_equal(called(machine, image()), called(mixed.machine(), image()))


@pytest.mark.rtl
def test_the_rtl_equals_the_golden_model(network, mixed):
    rtl = offload(network, image(), config="tiny", calibration=CALLS, verify=True, device="rtl")
    assert np.array_equal(called(rtl.machine(), image()), called(mixed.machine(), image()))
    report = rtl.report()
    assert report.bit_exact and report.cycles > 1000


def test_a_saved_library_runs_in_another_process(mixed, tmp_path):
    path = tmp_path / "net.so"
    mixed.save(path)
    np.save(tmp_path / "x.npy", image())
    code = f"""
import numpy as np, tvm, systola.tvm
library = systola.tvm.load({str(path)!r})
x = tvm.runtime.tensor(np.load({str(tmp_path / "x.npy")!r}))
np.save({str(tmp_path / "y.npy")!r}, library.machine()["main"](x)[0].numpy())
assert library.report().data["totals"]["runs"] == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), called(mixed.machine(), image())[0])


def test_machines_of_one_library_keep_their_own_options(mixed, tmp_path):
    path = tmp_path / "net.so"
    mixed.save(path)
    first, second = load(path), load(path, check=True)
    machines = [first.machine(), second.machine()]
    for machine in machines:
        called(machine, image())
    called(machines[0], image())
    runs = [each.report().data["totals"]["runs"] for each in (first, second)]
    assert runs == [4, 2]
    before = mixed.report().data["totals"]["runs"]
    called(mixed.machine(), image())
    assert mixed.report().data["totals"]["runs"] == before + 2


def test_open_sizes_are_those_of_the_inputs():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                z = R.nn.relu(R.multiply(x, y))
                R.output(z)
            return z

    x = np.random.default_rng(0).uniform(-1, 1, (3, 4)).astype(np.float32)
    made = offload(Module, (x, x), config="tiny")
    np.testing.assert_allclose(called(made.machine(), x, x), x * x, atol=0.01)
    with pytest.raises(TvmError, match="x has sizes that are open\n  hint: give inputs"):
        offload(Module)
    with pytest.raises(TvmError, match=r"\[2, 4\] is the shape of y: must be \['n', 4\]"):
        offload(Module, (x, x[:2]))


def test_other_functions_stay_and_calls_of_them_run_in_tvm():
    @I.ir_module
    class Module:
        @R.function(private=True)
        def twice(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                y = R.add(x, x)
                R.output(y)
            return y

        @R.function
        def other(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                y = R.multiply(x, x)
                R.output(y)
            return y

        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            cls = Module
            with R.dataflow():
                a = R.nn.relu(x)
                b = cls.twice(a)
                c = R.nn.softmax(b)
                R.output(c)
            return c

    x = np.random.default_rng(0).uniform(-1, 1, (2, 4)).astype(np.float32)
    made = offload(Module, x, config="tiny")
    assert places(made) == {"a": "npu_0", "b": "cpu", "c": "npu_1"}
    machine = made.machine()
    np.testing.assert_allclose(called(machine, x), plain(Module, x), atol=0.02)
    np.testing.assert_allclose(machine["other"](tvm.runtime.tensor(x)).numpy(), x * x)


def test_integers_leave_the_npu_in_tvms_types():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 16), "float32")):
            with R.dataflow():
                y = R.nn.silu(x)
                a = R.argmax(y, axis=1)
                b = R.topk(y, k=3, axis=-1, dtype="int32")
                c = R.greater(y, R.const(0.0, "float32"))
                z = (a, b[0], b[1], c, x)
                R.output(z)
            return z

    x = np.random.default_rng(0).uniform(-1, 1, (2, 16)).astype(np.float32)
    made = offload(Module, x, config="tiny")
    assert places(made)["a"] == places(made)["c"] == "npu_0"
    for found, wanted in zip(called(made.machine(), x), plain(Module, x), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, atol=0.001)


def test_half_precision_stays_in_tvm():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.nn.silu(R.add(x, x))
                b = R.nn.relu(R.astype(a, "float16"))
                c = R.nn.silu(R.astype(b, "float32"))
                R.output(c)
            return c

    x = np.random.default_rng(0).uniform(-1, 1, (2, 4)).astype(np.float32)
    made = offload(Module, x, config="tiny")
    reasons = {row["target"]: row["reason"] for row in made.report().data["nodes"]}
    assert reasons["nn.relu"] == "float16: tensors to and from the NPU are float32"
    np.testing.assert_allclose(called(made.machine(), x), plain(Module, x), atol=0.02)


def test_an_error_of_a_program_is_raised_as_it_is_and_the_machine_goes_on(mixed):
    machine = mixed.machine()
    bad = image()
    bad[0, 0, 0, 0] = np.nan
    with pytest.raises(TvmError, match="input x has NaN or infinite values"):
        called(machine, bad)
    assert np.isfinite(called(machine, image())).all()


def test_weights_that_are_arguments_have_a_hint(network):
    module = relax_of(Network(), image(), keep_params_as_input=True)
    with pytest.raises(TvmError, match=r"hint: relax\.transform\.BindParams gives weights"):
        offload(module, image())


def test_without_fallback_the_call_is_named():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")):
            with R.dataflow():
                a = R.argsort(x)
                R.output(a)
            return a

    with pytest.raises(NotCompiledError, match=r"a \(argsort\) cannot run on the NPU: operator"):
        offload(Module, config="tiny", fallback=False)


@pytest.mark.parametrize(
    ("given", "options", "error", "message"),
    [
        ((image(), image()), {}, TvmError, "main: 2 inputs given, the function has 1: x"),
        ({"y": image()}, {}, TvmError, "main: inputs y given, the function has x"),
        (image()[:, :2], {}, TvmError, r"\[1, 2, 8, 8\] is the shape of x: must be \[1, 3, 8, 8\]"),
        (image().astype(np.float64), {}, TvmError, r"x is float64.*must be float32\[1, 3, 8, 8\]"),
        (image(), {"function": "mian"}, TvmError, "no Relax function 'mian'"),
        (image(), {"confg": "tiny"}, OptionError, "'confg': no such option"),
    ],
)
def test_calls_that_do_not_fit_are_refused(network, given, options, error, message):
    with pytest.raises(error, match=message):
        offload(network, given, **options)


def test_what_is_no_module_is_refused(network):
    with pytest.raises(TvmError, match=r"Network given: must be a tvm\.IRModule"):
        offload(Network(), image())


def test_control_flow_is_refused():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")):
            if c:
                y = R.add(x, x)
            else:
                y = R.multiply(x, x)
            return y

    with pytest.raises(TvmError, match=r"main: .*control flow, or calls with side effects"):
        offload(Module)


def test_files_that_are_no_such_libraries_are_refused(tmp_path):
    with pytest.raises(TvmError, match="no such file"):
        load(tmp_path / "none.so")
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(TvmError, match=r"damaged\.so: no library of TVM"):
        load(damaged)
    module, _ = module_of([case for case in cases() if case.op == "nn.relu"])
    other = tmp_path / "other.so"
    relax.build(module, "llvm").export_library(str(other))
    with pytest.raises(TvmError, match="no library that systola"):
        load(other)
    with pytest.raises(OptionError, match="config='tiny': is decided when a model is lowered"):
        load(other, config="tiny")


def test_without_tvm_a_message_says_what_to_install(network, monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm", None)
    with pytest.raises(TvmError, match=r"pip install 'systola\[tvm\]'"):
        offload(network)
