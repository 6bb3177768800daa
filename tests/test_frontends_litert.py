"""LiteRT files: every operator against LiteRT's own interpreter, as float and as int8."""

import numpy as np
import pytest
import torch
from litert_cases import BITS, CASES, float_model, int8_model
from litert_files import LiteRtFile, options, run_litert

from sw.frontends.litert import is_litert, load_litert
from sw.frontends.litert.operators_table import lines, refused
from sw.frontends.litert.table import ROWS

ELSEWHERE = {"QUANTIZE", "DEQUANTIZE", "SHAPE", "RANK", "FILL", "RANGE", "DENSIFY"}
ELSEWHERE |= {"UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"}
"""Operators that have tests of their own: below, in test_frontends_litert_sparse.py and
test_frontends_litert_recurrent.py."""


def ours(model, arrays):
    """(ports, what the module gives in the file's types)."""
    given = [torch.from_numpy(p.to_real(a)) for p, a in zip(model.inputs, arrays)]
    made = model.module(*given)
    made = made if isinstance(made, tuple) else (made,)
    return [port.to_stored(each.numpy()) for port, each in zip(model.outputs, made)]


def both(data, arrays):
    """Pairs (ours, LiteRT's) of results of the same shape and type."""
    pairs = list(zip(ours(load_litert(data), arrays), run_litert(data, arrays)))
    for mine, theirs in pairs:
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    return pairs


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float(case):
    model = float_model(case)
    for mine, theirs in both(model.data, model.arrays):
        np.testing.assert_allclose(mine.astype(float), theirs.astype(float), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in CASES if c.int8], ids=str)
def test_int8(case):
    """Within one step, and few differ: `share` of the case, which says why."""
    model = int8_model(case)
    for mine, theirs in both(model.data, model.arrays):
        apart = np.abs(mine.astype(int) - theirs.astype(int))
        assert apart.max() <= 1
        assert (apart > 0).sum() <= np.ceil(case.share * apart.size)


def test_every_operator_has_a_case():
    assert {case.kind for case in CASES} | ELSEWHERE == ROWS.keys()
    int8 = {case.kind for case in CASES if case.int8}
    assert int8 - ELSEWHERE == {kind for kind, row in ROWS.items() if row.int8} - ELSEWHERE


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quantize_and_dequantize(dtype):
    zero = 3 if dtype == "int8" else 131
    f = LiteRtFile()
    x = f.input((4, 16))
    first, second = f.tensor((4, 16), dtype, 0.01, zero), f.tensor((4, 16), dtype, 0.017, zero - 9)
    y = f.tensor((4, 16))
    f.operator("QUANTIZE", [x], [first], options("Quantize"))
    f.operator("QUANTIZE", [first], [second], options("Quantize"))
    f.operator("DEQUANTIZE", [second], [y], options("Dequantize"))
    f.output(second, y)
    values = np.random.default_rng(0).uniform(-1, 1, (4, 16)).astype(np.float32)
    (steps, theirs), (real, wanted) = both(f.data(), [values])
    apart = np.abs(steps.astype(int) - theirs)
    assert apart.max() <= 1 and np.mean(apart) <= BITS
    np.testing.assert_allclose(real, wanted, atol=0.0171 if apart.any() else 1e-6)


def test_what_no_input_reaches_is_computed_when_the_file_is_read():
    """SHAPE, RANK, FILL, RANGE, a shape computed by arithmetic, weights of 16 bits."""
    f = LiteRtFile()
    x = f.input((2, 3, 4))
    shape, part, size = (f.tensor((n,), "int32") for n in (3, 1, 1))
    f.operator("SHAPE", [x], [shape], options("Shape", outType=2))
    f.operator("SLICE", [shape, f.ints(0), f.ints(1)], [part], options("Slice"))
    f.operator("MUL", [part, f.ints(3)], [size], options("Mul"))
    rows, flat = f.tensor((2,), "int32"), f.tensor((6, 4))
    f.operator("CONCATENATION", [size, f.ints(-1)], [rows], options("Concatenation"))
    f.operator("RESHAPE", [x, rows], [flat], options("Reshape"))
    counted, filled, rank = f.tensor((4,)), f.tensor((6, 1)), f.tensor((), "int32")
    scalars = [f.constant(np.float32(v)) for v in (0, 4, 1)]
    f.operator("RANGE", scalars, [counted], options("Range"))
    f.operator("FILL", [f.ints(6, 1), scalars[1]], [filled], options("Fill"))
    f.operator("RANK", [flat], [rank], options("Rank"))
    half, single = f.constant(np.arange(4, dtype=np.float16)), f.tensor((4,))
    f.operator("DEQUANTIZE", [half], [single], options("Dequantize"))
    real, total = f.tensor(()), flat
    f.operator("CAST", [rank], [real], options("Cast"))
    for operand in (counted, filled, real, single):
        total, before = f.tensor((6, 4)), total
        f.operator("ADD", [before, operand], [total], options("Add"))
    f.output(total)
    data = f.data()
    kinds = [step.call.operator.kind for step in load_litert(data).module.children()]
    assert kinds == ["RESHAPE", *["ADD"] * 4]
    values = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4)).astype(np.float32)
    ((mine, theirs),) = both(data, [values])
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def dense(steps, scale, zero=0, axis=0, dtype="int8", grid=(0.02, 3), out=(0.05, 1)):
    """A file of one fully connected layer; `steps`: its weights; grid: of the input, or None."""
    f = LiteRtFile()
    x = f.input((4, steps.shape[1]), dtype if grid else "float32", *(grid or ()))
    w = f.constant(steps, scale, zero, axis)
    y = f.tensor((4, len(steps)), dtype if grid else "float32", *(out if grid else ()))
    f.operator("FULLY_CONNECTED", [x, w, -1], [y], options("FullyConnected"))
    f.output(y)
    return f


def test_uint8_is_shifted_to_int8():
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 256, (8, 32)).astype(np.uint8)
    file = dense(weights, 0.01, 120, dtype="uint8", grid=(0.02, 131), out=(0.3, 100))
    model = load_litert(file.data())
    assert [(p.dtype, p.zero_point) for p in (*model.inputs, *model.outputs)] == [
        ("uint8", 131),
        ("uint8", 100),
    ]
    x = rng.integers(0, 256, (4, 32)).astype(np.uint8)
    ((mine, theirs),) = both(file.data(), [x])
    assert np.abs(mine.astype(int) - theirs).max() <= 1
    assert np.mean(mine != theirs) <= 0.05


def test_weights_of_four_bits():
    rng = np.random.default_rng(0)
    wide = rng.integers(-7, 8, (8, 32)).astype(np.int8)
    packed = (wide.reshape(-1, 2)[:, 0] & 15 | wide.reshape(-1, 2)[:, 1] << 4).astype(np.uint8)
    made = []
    for four in (False, True):
        file = dense(wide, np.full(8, 0.1))
        if four:
            tensor = file.graph.tensors[1]
            tensor.type, file.model.buffers[tensor.buffer].data = 17, packed
        x = np.random.default_rng(1).integers(-128, 128, (4, 32)).astype(np.int8)
        made.append(ours(load_litert(file.data()), [x])[0])
    assert (made[0] == made[1]).all()


def test_weights_of_hybrid_models_are_read_as_floats():
    """LiteRT rounds their activations row by row at run time; here they stay floats."""
    rng = np.random.default_rng(0)
    steps = rng.integers(-127, 128, (8, 32)).astype(np.int8)
    model = load_litert(dense(steps, 0.01, grid=None).data())
    x = rng.uniform(-1, 1, (4, 32)).astype(np.float32)
    (made,) = ours(model, [x])
    np.testing.assert_allclose(made, x @ (steps * 0.01).T, rtol=1e-5, atol=1e-5)


def test_ports_and_examples(tmp_path):
    file = dense(np.ones((8, 32), np.int8), 0.01)
    path = tmp_path / "model.bin"
    path.write_bytes(file.data())
    model = load_litert(path)
    (port,), (x,) = model.inputs, model.example
    assert (port.name, port.shape, port.dtype) == ("t0", (4, 32), "int8")
    assert port.scale == pytest.approx(0.02) and port.zero_point == 3
    assert tuple(x.shape) == port.shape and x.dtype == torch.float32
    steps = np.arange(-128, 128, dtype=np.int8)
    assert (port.to_stored(port.to_real(steps)) == steps).all()


def test_a_file_is_known_by_its_content(tmp_path):
    model, other = tmp_path / "model.txt", tmp_path / "model.tflite"
    model.write_bytes(dense(np.ones((8, 32), np.int8), 0.01).data())
    other.write_bytes(b"PK\x03\x04 and more")
    assert is_litert(model) and not is_litert(other)
    assert not is_litert(tmp_path / "none") and not is_litert(tmp_path)


def test_the_table_has_every_operator_of_the_schema():
    text = "\n".join(lines())
    assert f"Taken as float: {len(ROWS)}." in text
    assert all(name in text for name in [*ROWS, *refused()])
