"""Kernels as operators of PyTorch, alone and in `torch.compile`."""

import numpy as np
import pytest
import torch
from kernel_examples import attention_data, example, score_step
from torch_backend_helpers import report

from sw.language.errors import KernelError
from sw.language.kernel import kernel
from sw.language.tensor import Tensor, load, store
from sw.language.torch_op import kernel_of
from sw.language.types import int8

SCALE = 2.0**-7


@pytest.fixture(scope="module")
def matmul():
    return example("matmul").as_torch_op("systola_tests::matmul")


def random_int8(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8))


def product(a, b):
    return ((a.int() @ b.int() + 64) >> 7).clamp(-128, 127).to(torch.int8)


def test_an_operator_computes_what_the_kernel_does(matmul):
    a, b = random_int8(16, 32), random_int8(32, 24, seed=1)
    assert torch.equal(torch.ops.systola_tests.matmul(a, b, SCALE), product(a, b))
    assert torch.equal(matmul(a, b.T.contiguous().T, SCALE, tile=[8, 16, 16]), product(a, b))


def test_an_operator_keeps_pytorchs_rules(matmul):
    torch.library.opcheck(matmul, (random_int8(8, 16), random_int8(16, 8), SCALE))


def test_shapes_are_known_without_a_run(matmul):
    a, b = (torch.empty(s, dtype=torch.int8, device="meta") for s in ((5, 7), (7, 3)))
    assert torch.ops.systola_tests.matmul(a, b, SCALE).shape == (5, 3)


def test_the_kernel_is_found_by_its_operator(matmul):
    found = kernel_of(torch.ops.systola_tests.matmul.default)
    assert found is not None and found.kernel.name == "matmul"
    assert kernel_of(torch.ops.aten.mm.default) is None


class Net(torch.nn.Module):
    """A product of integers between two float layers."""

    def __init__(self):
        super().__init__()
        self.before, self.after = torch.nn.Linear(20, 32), torch.nn.Linear(24, 5)
        self.register_buffer("weight", random_int8(32, 24))

    def forward(self, x):
        q = torch.clamp(torch.round(torch.relu(self.before(x)) / 0.02), -128, 127)
        y = torch.ops.systola_tests.matmul(q.to(torch.int8), self.weight, SCALE)
        return self.after(y.float() * 0.02)


@pytest.mark.parametrize("device", ["golden", pytest.param("rtl", marks=pytest.mark.rtl)])
def test_a_compiled_model_runs_the_kernel_as_a_part_of_its_own(matmul, device):
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(16, 20)
    torch._dynamo.reset()
    run = torch.compile(net, backend="systola", options={"device": device, "cache": False})
    with torch.no_grad():
        got, want = run(x), net(x)
    assert (got - want).abs().max() < 0.1 * want.abs().max()
    (variant,) = report(run)["graphs"][0]["variants"]
    (row,) = [n for n in variant["nodes"] if n["name"] == "matmul"]
    assert row["where"].startswith("npu") and not row["reason"]
    (part,) = [p for p in variant["parts"] if p["part"] == row["where"].replace(" ", "_")]
    assert part["runs"] == 1
    assert (part["bytes_in"], part["bytes_out"]) == (16 * 32 + 32 * 24, 16 * 24)
    assert part["instructions"]["matrix"] > 0
    assert (part["cycles"] is not None) == (device == "rtl")


def test_a_model_that_is_one_kernel_gives_its_integers(matmul):
    torch._dynamo.reset()
    run = torch.compile(lambda a, b: torch.ops.systola_tests.matmul(a, b, SCALE), backend="systola")
    a, b = random_int8(16, 32), random_int8(32, 24, seed=1)
    assert torch.equal(run(a, b), product(a, b))


def test_what_the_configuration_cannot_run_stays_on_the_cpu_with_the_reason():
    operator = example("attention").as_torch_op("systola_tests::attention")
    tensors = [torch.from_numpy(x) for x in attention_data(1, 16, 8).values()]
    want = operator(*tensors, score_step(8))
    torch._dynamo.reset()
    run = torch.compile(
        lambda q, k, v: torch.ops.systola_tests.attention(q, k, v, score_step(8)),
        backend="systola",
        options={"config": "micro"},
    )
    assert torch.equal(run(*tensors), want)
    (variant,) = report(run)["graphs"][0]["variants"]
    (row,) = variant["nodes"]
    assert row["where"] == "cpu"
    assert "configuration micro has transposed_weights=False" in row["reason"]


def test_an_operator_needs_a_result_a_name_and_types_of_pytorch():
    @kernel
    def shapeless(a: Tensor, out: Tensor) -> None:
        store(out, load(a))

    with pytest.raises(KernelError, match="needs the shape of its result"):
        shapeless.as_torch_op("systola_tests::shapeless")

    @kernel(result=lambda a: int8[a.shape])
    def copied(a: Tensor, out: Tensor, how: dict) -> None:
        store(out, load(a))

    with pytest.raises(KernelError, match="must be of the form library::operator"):
        copied.as_torch_op("copied")
    with pytest.raises(KernelError, match="parameter how: <class 'dict'>"):
        copied.as_torch_op("systola_tests::copied")


def test_a_wrong_type_is_refused_before_a_run(matmul):
    with pytest.raises(KernelError, match="a: dtype 'float32'"):
        torch.ops.systola_tests.matmul(torch.zeros(4, 4), random_int8(4, 4), SCALE)
