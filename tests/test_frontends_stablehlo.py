"""StableHLO files and JAX functions: what the modules compute, and what the NPU makes of them."""

from pathlib import Path
from typing import Any

import jax
import jax_cases as cases
import numpy as np
import pytest
import torch
from jax_networks import (
    Logits,
    TorchBlock,
    block,
    exported,
    mlp,
    resnet,
    torch_mlp,
    torch_of,
    torch_resnet,
    weights_of,
)  # fmt: skip
from stablehlo_mutations import mutated
from torch import nn

import systola
from sw.frontends.doors import door_of
from sw.frontends.stablehlo import StableHloError, is_stablehlo, load_stablehlo
from sw.frontends.stablehlo.parsing import parse
from sw.frontends.stablehlo.reading import read
from sw.models.user import load
from systola.jax import JaxError


def text(body: str, arguments: str = "%x: tensor<4xf32>", result: str = "tensor<4xf32>") -> bytes:
    return (
        f"func.func @main({arguments}) -> {result} {{\n{body}\n  return %y : {result}\n}}".encode()
    )


def leaves(found: Any) -> list[torch.Tensor]:
    return list(found) if isinstance(found, tuple) else [found]


def pcc(a: Any, b: Any) -> float:
    return float(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1])


# Operations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_operations_compute_what_jax_does(family: str) -> None:
    rows = cases.FAMILIES[family]

    def function(*groups: Any) -> Any:
        return [row(*args) for (row, _), args in zip(rows.values(), groups)]

    args = [given for _, given in rows.values()]
    model = load_stablehlo(exported(function, *args))
    wanted = jax.jit(function)(*args)
    inputs = jax.tree.leaves(args)
    kept = jax.export.export(jax.jit(function))(*args).module_kept_var_idx
    found = leaves(model.module(*[torch_of(inputs[i]) for i in kept]))
    names = [name for name, each in zip(rows, wanted) for _ in jax.tree.leaves(each)]
    wrong = []
    for name, tensor, array in zip(names, found, jax.tree.leaves(wanted), strict=True):
        array = np.asarray(array)
        assert tensor.shape == array.shape, name
        scale = max(float(np.abs(array.astype(np.float64)).max()), 1e-9)
        error = np.abs(tensor.numpy().astype(np.float64) - array.astype(np.float64)).max() / scale
        wrong += [(name, float(error))] if not error < 1e-5 else []
    assert wrong == []


def test_activations_are_recognized_however_jax_writes_them() -> None:
    x = 3 * cases.floats(4, 50)

    def function(x: Any) -> Any:
        return [row(x) for row, _ in cases.ACTIVATIONS.values()]

    model = load_stablehlo(exported(function, x))
    kinds = [name.rpartition("_")[0] for name, _ in model.module.named_children()]
    assert sorted(kinds) == sorted(kind for _, kind in cases.ACTIVATIONS.values())
    for found, wanted in zip(model.module(torch_of(x)), function(x), strict=True):
        assert np.allclose(found.numpy(), np.asarray(wanted), atol=2e-6)


def test_a_function_that_is_no_known_one_stays_as_it_is() -> None:
    x = cases.floats(4, 50)
    model = load_stablehlo(exported(lambda x: jax.nn.gelu(x) + 1e-4 * x, x))
    kinds = [name.rpartition("_")[0] for name, _ in model.module.named_children()]
    assert kinds == ["gelu", "multiply", "add"]


CHLO = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erfc", "sinh", "square",
    "tan",
]  # fmt: skip


def test_operations_of_chlo_are_taken() -> None:
    body = "\n".join(
        f"  %{i + 1} = chlo.{name} %{'x' if name != 'acosh' else 'z'} : "
        "tensor<4xf32> -> tensor<4xf32>" for i, name in enumerate(CHLO)
    )  # fmt: skip
    results = ", ".join(["tensor<4xf32>"] * len(CHLO))
    values = ", ".join(f"%{i + 1}" for i in range(len(CHLO)))
    source = (
        "func.func @main(%x: tensor<4xf32>, %z: tensor<4xf32>) -> "
        f"({results}) {{\n{body}\n  return {values} : {results}\n}}"
    )
    x = torch.tensor([-0.7, -0.1, 0.3, 0.8])
    found = load_stablehlo(source.encode()).module(x, x + 2)
    for name, tensor in zip(CHLO, found, strict=True):
        function = getattr(torch, name)
        assert torch.equal(tensor, function(x + 2 if name == "acosh" else x)), name


def test_an_array_that_a_loop_writes_is_one_concatenation() -> None:
    rows, (given,) = cases.LOOPS["scan"]
    model = load_stablehlo(exported(rows, given))
    kinds = [name.rpartition("_")[0] for name, _ in model.module.named_children()]
    assert kinds.count("concatenate") == 1 and "dynamic_update_slice" not in kinds


@pytest.mark.parametrize(("family", "name"), [
    ("loops", "scan"), ("loops", "layers"), ("branches", "cond"), ("orders", "median"),
    ("writes", "set"), ("writes", "element"),
])  # fmt: skip
def test_it_runs_on_the_npu(family: str, name: str) -> None:
    function, args = cases.FAMILIES[family][name]
    model = load_stablehlo(exported(function, *args))
    calls = [
        tuple(torch_of(cases.floats(*a.shape, seed=seed)) for a in args) for seed in range(1, 7)
    ]
    program = systola.compile(
        model.module, model.example, systola.preset("tiny"), calibration=calls
    )
    found = program.outputs(systola.run(program.image, program.inputs(*map(torch_of, args))))
    for ours, exact in zip(found, jax.tree.leaves(jax.jit(function)(*args)), strict=True):
        assert pcc(ours, exact) > 0.999


# Refusals -----------------------------------------------------------------------------------------

REFUSED = {
    "end of a loop": (
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 2, x),
        r"stablehlo.while at .*:\d+: a loop whose end depends on inputs\n  hint: .*lax.scan",
    ),
    "endless": (
        lambda x: jax.lax.while_loop(lambda c: c[0] >= 0, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        "a loop of more than 4,096 turns",
    ),
    "places": (lambda x: x.at[x[0, 0].astype(int)].set(0.0),
               r"stablehlo.scatter at .*operand 1 is computed from inputs"),
    "order": (lambda x: jax.lax.sort((x, x * 2), num_keys=2), "a sort by another order"),
    "start": (lambda x: jax.lax.dynamic_slice_in_dim(x, x[0, 0].astype(int), 2, 0),
              r"stablehlo.dynamic_slice at .*operand 1 is computed from inputs"),
    "int8": (lambda x: jax.lax.dot(x.astype(jax.numpy.int8), x.astype(jax.numpy.int8).T,
                                   preferred_element_type=jax.numpy.int32),
             r"a product of i8: products of the NPU take int8 operands with scales"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_named_with_its_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(StableHloError, match=message):
        load_stablehlo(exported(function, cases.floats(3, 4)))


def test_custom_calls_are_refused_by_name() -> None:
    body = "  %y = stablehlo.custom_call @their_kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>"
    with pytest.raises(StableHloError, match="custom call 'their_kernel'"):
        load_stablehlo(text(body))


def test_dynamic_shapes_are_refused() -> None:
    source = text("  %y = stablehlo.abs %x : tensor<?xf32>", "%x: tensor<?xf32>", "tensor<?xf32>")
    with pytest.raises(StableHloError, match="its shape is not fixed"):
        load_stablehlo(source)


def test_quantized_types_are_refused() -> None:
    kind = "tensor<4x!quant.uniform<i8:f32, 0.5>>"
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n  return %x : {kind}\n}}\n"
    with pytest.raises(StableHloError, match="quantized types are not read; give the float model"):
        load_stablehlo(text.encode())


def test_tosa_text_says_what_to_do() -> None:
    source = text("  %y = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf32>")
    with pytest.raises(StableHloError, match=r"tosa|TOSA"):
        load_stablehlo(source)


# Damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "bytecode"])
def test_damaged_files_give_clear_errors(form: str) -> None:
    weights = weights_of(torch_mlp())
    export = jax.export.export(jax.jit(lambda x: mlp(weights, x)))(cases.floats(2, 32))
    data = bytes(export.mlir_module_serialized)
    data = str(export.mlir_module()).encode() if form == "text" else data
    refused = 0
    for copy in mutated(data, 3, 1):
        try:
            load_stablehlo(copy)
        except StableHloError as error:
            refused += 1
            assert "hint: " in str(error)
    assert refused >= 1


def test_a_parser_that_dies_is_an_error_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sw.frontends.stablehlo.parsing._CHILD", "import os; os.abort()")
    with pytest.raises(StableHloError, match="MLIR's parser ended with code -6"):
        parse(b"module {}")


# Doors --------------------------------------------------------------------------------------------


def test_the_content_says_that_a_file_is_stablehlo(tmp_path: Path) -> None:
    export = jax.export.export(jax.jit(lambda x: jax.nn.relu(x)))(cases.floats(2, 3))
    (tmp_path / "a.bin").write_bytes(export.mlir_module_serialized)
    (tmp_path / "a.txt").write_text(str(export.mlir_module()))
    (tmp_path / "notes.txt").write_text("a module of stablehlo.add")
    assert [is_stablehlo(tmp_path / n) for n in ("a.bin", "a.txt", "notes.txt", "none")] == [
        True, True, False, False,
    ]  # fmt: skip
    found = door_of(tmp_path / "a.bin")
    assert found is not None and found.name == "StableHLO"
    model = load(str(tmp_path / "a.txt"))
    assert torch.equal(model.model(-torch.ones(2, 3)), torch.zeros(2, 3))


def test_a_module_of_torch_mlir_comes_in(tmp_path: Path) -> None:
    from torch_mlir import fx

    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.Conv2d(8, 8, 3, groups=8),
        nn.Flatten(), nn.LayerNorm(288), nn.Linear(288, 5), nn.GELU(), nn.Softmax(-1),
    ).eval()  # fmt: skip
    x = torch.randn(1, 3, 8, 8)
    path = tmp_path / "net.mlir"
    path.write_text(str(fx.export_and_import(module, x, output_type="stablehlo")))
    model = load_stablehlo(path)
    assert torch.allclose(model.module(x), module(x), atol=1e-5)


# On the NPU ---------------------------------------------------------------------------------------


def cycles(module: nn.Module, x: Any) -> int:
    return int(systola.compile(module, (torch_of(x),)).image.info["predicted_cycles"])


@pytest.mark.parametrize("name", ["block", "resnet"])
def test_a_network_takes_the_cycles_of_the_same_one_in_pytorch(name: str) -> None:
    torch.manual_seed(0)
    if name == "block":
        module, x = TorchBlock(64, 4).eval(), cases.floats(1, 32, 64)
        weights = weights_of(module)
        data = exported(lambda x: block(weights, x, 4), x)
    else:
        plain, x = torch_resnet((1, 1), (8, 16), 10), cases.floats(1, 3, 32, 32)
        weights, module = weights_of(plain), Logits(plain)
        data = exported(lambda x: resnet(weights, x, (1, 1)), x)
    model = load_stablehlo(data)
    wanted = module(torch_of(x))
    assert float((model.module(torch_of(x)) - wanted).abs().max()) < 1e-5
    assert abs(cycles(model.module, x) / cycles(module, x) - 1) < 0.02


@pytest.mark.slow
def test_resnet18_takes_the_cycles_of_the_one_in_pytorch() -> None:
    plain = torch_resnet((2, 2, 2, 2), (64, 128, 256, 512), 1000)
    weights, x = weights_of(plain), cases.floats(1, 3, 64, 64)
    model = load_stablehlo(exported(lambda x: resnet(weights, x, (2, 2, 2, 2)), x))
    assert abs(cycles(model.module, x) / cycles(Logits(plain), x) - 1) < 0.02


@pytest.mark.rtl
def test_a_jax_function_runs_on_the_rtl_as_on_the_golden_model() -> None:
    weights, x = weights_of(torch_mlp()), cases.floats(4, 32)

    def function(given: Any, scale: float = 1.0) -> Any:
        y = mlp(weights, given["x"])
        return {"y": y, "best": jax.numpy.argmax(y, -1)}

    found = {}
    for device in ("golden", "rtl"):
        fast = systola.jax.compile(
            function, {"x": x, "unused": x}, config="tiny", device=device, verify=True, cache=False
        )
        found[device] = fast({"x": x, "unused": x})
        assert fast.report.npu_nodes >= 6 and fast.report.data["totals"]["verified"] == 1
    wanted = function({"x": x})
    assert pcc(found["golden"]["y"], wanted["y"]) > 0.999
    assert isinstance(found["golden"]["y"], jax.Array)
    assert found["golden"]["best"].dtype == wanted["best"].dtype
    assert np.array_equal(found["golden"]["y"], found["rtl"]["y"])


def test_calls_that_do_not_fit_are_refused() -> None:
    x = cases.floats(2, 4)
    fast = systola.jax.compile(lambda x: jax.nn.relu(x), x, config="tiny", calibration=[x, 2 * x])
    with pytest.raises(JaxError, match=r"has shape \[3, 4\]: compiled for \[2, 4\]"):
        fast(cases.floats(3, 4))
    with pytest.raises(JaxError, match="arguments"):
        fast(x, x)
    with pytest.raises(JaxError, match="inside of a transformation"):
        jax.jit(lambda x: fast(x))(x)
    with pytest.raises(JaxError, match="JAX cannot export it: TypeError"):
        systola.jax.compile(lambda x: x.nothing(), "text")
    with pytest.raises(systola.SystolaError, match="no such option"):
        systola.jax.compile(lambda x: x + 1, x, devise="rtl")


def test_reading_in_this_process_gives_the_same() -> None:
    data = exported(lambda x: jax.nn.relu(x), cases.floats(2, 3))
    assert read(data).functions == parse(data).functions
