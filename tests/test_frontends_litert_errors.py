"""What the LiteRT door refuses: whole messages, and files that are damaged anywhere."""

import builtins

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from litert_files import LiteRtFile, options
from litert_networks import cnn

from spec.errors import SystolaError
from sw.frontends.litert import load_litert
from sw.frontends.litert import schema as names
from sw.frontends.litert.errors import LiteRtError


def message(source):
    with pytest.raises(LiteRtError) as raised:
        load_litert(source)
    assert isinstance(raised.value, SystolaError | ValueError)
    return str(raised.value)


def one(kind, made=None, *, shape=(2, 4), more=(), dtype="float32", out="float32", custom=None,
        grid=(None, 0), result=(), **given):  # fmt: skip
    """A file of one operator; `given`: what to set of its input tensor."""
    f = LiteRtFile()
    x = f.input(shape, dtype, *grid, name="x")
    for field, value in given.items():
        setattr(f.graph.tensors[x], field, value)
    y = f.tensor(result, out, *grid, name="y")
    f.operator(kind, [x, *(f.constant(each, name=f"c{i}") for i, each in enumerate(more))], [y],
               made, custom)  # fmt: skip
    f.output(y)
    return f


def test_no_file(tmp_path):
    path = tmp_path / "none.tflite"
    assert message(path) == (
        f"{path}: cannot read: No such file or directory\n  hint: give a .tflite file"
    )


def test_other_file(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(b"PK\x03\x04\x14\x00\x00\x00rest")
    assert message(path) == (
        f"{path}: no LiteRT model: bytes 4 to 8 are b'\\x14\\x00\\x00\\x00', not b'TFL3'\n"
        "  hint: give a .tflite file"
    )


def test_truncated(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(cnn()[:100])
    text = message(path)
    assert text.startswith(f"{path}: damaged: ")
    assert text.endswith("\n  hint: copy or convert the file again")


def test_missing_package(monkeypatch):
    """The rest of Systola works without it."""
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "tflite":
            raise ImportError(name)
        return real(name, *rest, **more)

    names._package.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    try:
        text = message(cnn())
    finally:
        names._package.cache_clear()
    assert text == (
        "LiteRT model: LiteRT files are read with the package tflite, which is not installed\n"
        "  hint: pip install 'systola[tflite]'"
    )


def newer_version():
    file = one("ABS")
    file.model.version = 4
    return file


def several_subgraphs():
    file = one("ABS")
    file.model.subgraphs.append(file.graph)
    return file


def blockwise():
    file = one("ABS", dtype="int8", grid=(0.1, 0))
    q = file.graph.tensors[0].quantization
    q.detailsType, q.details = schema.QuantizationDetails.CustomQuantization, (
        schema.CustomQuantizationT()
    )  # fmt: skip
    q.details.custom = np.zeros(4, np.uint8)
    return file


def computed_weights():
    file = LiteRtFile()
    x, w = file.input((1, 4, 4, 2), name="x"), file.input((3, 2, 2, 2), name="w")
    y = file.tensor((1, 4, 4, 3), name="y")
    file.operator("CONV_2D", [x, w], [y], options("Conv2D", strideH=1, strideW=1))
    file.output(y)
    return file


def constant_output():
    file = one("ABS")
    file.output(file.constant(np.zeros(3, np.float32), name="c"))
    return file


def out_of_order():
    file = one("ABS")
    file.operator("NEG", [2], [file.tensor((2, 4), name="z")], options("Neg"))
    file.graph.tensors[2].name = "z"
    return file


FIXED = "convert the model with fixed shapes and without "

MESSAGES = {
    "newer version": (
        newer_version, "schema version 4; version 3 is read",
        "convert the model with a released version of LiteRT",
    ),
    "several subgraphs": (
        several_subgraphs, "2 subgraphs; models of one are taken",
        "save each signature as a model of its own",
    ),
    "custom operator": (
        lambda: one("CUSTOM", custom="Resize3D"),
        "operator 0 (CUSTOM Resize3D): custom operators are not taken: their meaning is not in the "
        "file",
        FIXED + "custom operators",
    ),
    "newer operator": (
        lambda: one(250),
        "operator 0 (builtin 250): the file's schema is newer: it has operators that package "
        "tflite does not know",
        "pip install --upgrade 'systola[tflite]', or convert with an older LiteRT",
    ),
    "control flow": (
        lambda: one("WHILE", options("While", condSubgraphIndex=1, bodySubgraphIndex=2)),
        "operator 0 (WHILE): control flow is not taken: a program of the NPU has one order of "
        "layers",
        FIXED + "loops and branches, unrolled",
    ),
    "unknown operator": (
        lambda: one("L2_POOL_2D"),
        "operator 0 (L2_POOL_2D): operator L2_POOL_2D is not taken (did you mean 'MAX_POOL_2D'?)",
        "python -m sw.frontends.litert.operators_table lists those that are",
    ),
    "dynamic shape": (
        lambda: one("ABS", shape=(-1, 4)),
        "tensor 'x': shape [-1, 4]: dynamic shapes are not taken",
        "convert the model with fixed shapes",
    ),
    "type": (
        lambda: one("ABS", dtype="string"),
        "tensor 'x': STRING is not taken; types are FLOAT32, FLOAT16, FLOAT64, INT4, INT8, UINT8, "
        "INT16, INT32, INT64, BOOL",
        FIXED + "other types",
    ),
    "int16 activations": (
        lambda: one("ABS", dtype="int16", grid=(0.1, 0)),
        "tensor 'x': activations of int16 with a scale are not taken, int8 and uint8 are",
        "quantize the model to int8",
    ),
    "scales by channel of an activation": (
        lambda: one("ABS", shape=(2, 4), dtype="int8", grid=([0.1, 0.2], 0)),
        "tensor 'x': an activation with 2 scales and zero point 0",
        "quantize activations with one scale a tensor",
    ),
    "scales that fit no tensor": (
        lambda: one("ABS", dtype="int8", grid=([0.5, 0.25, 1], 0)),
        "tensor 'x': 3 scales [0.5, 0.25, 1.0] and 3 zero points [0, 0, 0] along dimension 0 of "
        "shape [2, 4] fit no tensor",
        "copy or convert the file again",
    ),
    "blockwise": (
        blockwise, "tensor 'x': custom or blockwise quantization is not taken",
        "convert the model with one scale a tensor or a channel",
    ),
    "int8 form": (
        lambda: one("SQUARE", dtype="int8", out="int8", grid=(0.1, 0)),
        "operator 0 (SQUARE), tensor 'y': this operator is taken in float alone, and the file's "
        "result is quantized",
        "convert the model with this operator in float",
    ),
    "computed weights": (
        computed_weights, "operator 0 (CONV_2D), tensor 'w': weights are computed at run time",
        "only constant weights",
    ),
    "shape": (
        lambda: one("ABS", result=(2, 5)),
        "operator 0 (ABS), tensor 'y': the file says shape [2, 5], its operands give [2, 4]",
        "convert the model again with fixed shapes",
    ),
    "axis": (
        lambda: one("MEAN", options("Reducer"), more=[np.array([2], np.int32)]),
        "operator 0 (MEAN): axis 2 of a tensor of 2 dimensions", "convert the model again",
    ),
    "operands": (
        lambda: one("ADD", options("Add"), more=[np.zeros(3, np.float32)]),
        "operator 0 (ADD): operands 'x' [2, 4], 'c0' [3] do not fit: RuntimeError: Attempting to "
        "broadcast a dimension of length 3 at -1! Mismatching argument at index 1 had "
        "torch.Size([3]); but expected shape should be broadcastable to [2, 4]",
        "check that LiteRT runs the file",
    ),
    "options": (
        lambda: one("ADD", options("Mul"), more=[np.zeros(4, np.float32)]),
        "operator 0 (ADD): options of class MulOptions, not AddOptions", "convert the model again",
    ),
    "activation": (
        lambda: one("ADD", options("Add", fusedActivationFunction=5),
                    more=[np.zeros(4, np.float32)]),
        "operator 0 (ADD): the fused activation 5 is not taken", "convert the model without it",
    ),
    "missing operand": (
        lambda: one("RESHAPE", options("Reshape", newShape=[3, 3])),
        "operator 0 (RESHAPE): operands 'x' [2, 4] do not fit: RuntimeError: shape '[3, 3]' is "
        "invalid for input of size 8",
        "check that LiteRT runs the file",
    ),
    "constant output": (
        constant_output, "tensor 'c': an output that does not depend on the inputs",
        "leave it out of the model",
    ),
    "order": (
        out_of_order,
        "operator 1 (NEG), tensor 'z': an operand that no operator before it makes",
        "convert the model again",
    ),
    "size": (
        lambda: one("BROADCAST_TO", options("BroadcastTo"), shape=(1, 4),
                    more=[np.array([1 << 30, 4], np.int32)]),
        "tensor 'y': a result of shape [1073741824, 4]: more than 268,435,456 elements",
        "make the model smaller",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name):
    make, text, hint = MESSAGES[name]
    assert message(make().data()) == f"LiteRT model: {text}\n  hint: {hint}"


# Damaged files --------------------------------------------------------------------------------

GOOD = {
    "cnn": cnn(),
    "mean": one("MEAN", options("Reducer"), more=[np.array([1], np.int32)]).data(),
}


def harmless(data):
    """It loads, or is refused; nothing else is raised."""
    try:
        load_litert(data)
    except LiteRtError as error:
        assert str(error).startswith("LiteRT model: ")


FUZZ = settings(
    max_examples=100, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


@FUZZ
@given(st.sampled_from(sorted(GOOD)), st.floats(0, 1))
@example("cnn", 0.0)
def test_truncated_anywhere(name, share):
    harmless(GOOD[name][: int(share * len(GOOD[name]))])


@FUZZ
@given(
    st.sampled_from(sorted(GOOD)),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=4)), max_size=4),
    st.booleans(),
)
def test_damaged_anywhere(name, places, at_the_end):
    """Weights are most of a file; its structure lies at the end, and tensors' offsets there too."""
    data = bytearray(GOOD[name])
    for share, new in places:
        begin = max(0, len(data) - 4000) if at_the_end else 8
        at = begin + int(share * (len(data) - begin - 4))
        data[at : at + len(new)] = new
    harmless(bytes(data))
