"""TOSA flatbuffers in: what is read equals what was written; what is wrong is said clearly."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_ops import BUILDERS
from random_tosa import CASES, random_graph

from sw.compiler.errors import CompileError, GraphError
from sw.compiler.tosa.file import TosaFileError, from_flatbuffer, load_tosa
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.compiler.tosa.graph import Graph
from sw.compiler.tosa.interpreter import run_graph

ts = importlib.import_module("tosa_serializer")


def _graph(kind: str) -> Graph:
    rng = np.random.default_rng(3)
    return random_graph(kind, rng, 3)[0] if kind in CASES else BUILDERS[kind](rng)


@pytest.mark.parametrize("kind", [*CASES, *BUILDERS])
def test_what_is_written_is_read(kind: str) -> None:
    graph = _graph(kind)
    again = from_flatbuffer(to_flatbuffer(graph), graph.name)
    assert (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
    assert len(again.ops) == len(graph.ops)
    for ours, theirs in zip(graph.ops, again.ops, strict=True):
        assert (ours.kind, ours.inputs, ours.outputs) == (
            theirs.kind,
            theirs.inputs,
            theirs.outputs,
        )
        assert ours.attributes == theirs.attributes
    for name, tensor in again.tensors.items():
        ours = graph.tensors[name]
        assert (tensor.shape, tensor.dtype) == (ours.shape, ours.dtype)
        assert (tensor.data is None) == (ours.data is None)
        if tensor.data is not None:
            np.testing.assert_array_equal(tensor.data, ours.data)


def _writer(version: tuple[int, int, int] = (1, 0, 0), draft: bool = False) -> Any:
    major, minor, patch = version
    return ts.TosaSerializer(
        "", targetMajor=major, targetMinor=minor, targetPatch=patch, targetDraft=draft
    )


def _record(kind: str = "Identity", *arguments: Any) -> Any:
    record = ts.TosaSerializerAttribute()
    getattr(record, f"{kind}Attribute")(*arguments)
    return record


def _identity(out: Any, dtype: Any = None) -> bytes:
    block = out.currRegion.currBasicBlock
    for name in "xy":
        block.addTensor(name, [2, 3], ts.DType.INT8 if dtype is None else dtype)
    block.addInput("x")
    block.addOperator(ts.Op.IDENTITY, ["x"], ["y"], _record())
    block.addOutput("y")
    return bytes(out.serialize())


def test_every_result_is_written_by_an_operator() -> None:
    """A constant, an input, and a tensor named twice as graph outputs."""
    out = _writer()
    block = out.currRegion.currBasicBlock
    block.addTensor("in/x", [2], ts.DType.INT8)
    block.addTensor("c", [2], ts.DType.INT16, np.array([5, -6], np.int16))
    block.addTensor("flag", [], ts.DType.BOOL)
    block.addInput("in/x")
    block.addInput("flag")
    block.addOperator(ts.Op.CONST, [], ["c"], _record("Const"))
    for name in ("c", "in/x", "c", "flag"):
        block.addOutput(name)
    graph = from_flatbuffer(bytes(out.serialize()))
    assert graph.inputs == ["in_x", "flag"]
    assert [op.kind for op in graph.ops] == ["IDENTITY"] * 4
    assert len(set(graph.outputs)) == 4
    assert graph.outputs[0] == "c"
    values = {"in_x": np.array([1, 2], np.int8), "flag": np.array(True)}
    got = [run_graph(graph, values)[name].tolist() for name in graph.outputs]
    assert got == [[5, -6], [1, 2], [5, -6], True]


@pytest.mark.parametrize(
    ("version", "draft", "found"), [((1, 1, 0), True, "1.1.0-draft"), ((0, 80, 0), False, "0.80.0")]
)
def test_other_versions_are_refused(version: tuple[int, int, int], draft: bool, found: str) -> None:
    with pytest.raises(TosaFileError) as caught:
        from_flatbuffer(_identity(_writer(version, draft)), where="net.tosa")
    assert str(caught.value) == (
        f"net.tosa: made for TOSA {found}\n"
        "  hint: this release reads TOSA 1.0; ask the producer for target version 1.0"
    )


def test_float_tensors_are_refused() -> None:
    with pytest.raises(TosaFileError, match="tensor 'x' has type FP32; types are BOOL, INT8"):
        from_flatbuffer(_identity(_writer(), ts.DType.FP32))


def test_operators_outside_the_profile_are_refused() -> None:
    out = _writer()
    block = out.currRegion.currBasicBlock
    for name in "xy":
        block.addTensor(name, [2], ts.DType.INT8)
    block.addInput("x")
    block.addOperator(ts.Op.TANH, ["x"], ["y"], _record("Tanh"))
    block.addOutput("y")
    with pytest.raises(GraphError, match="y: operator TANH is not in TOSA's integer profile"):
        from_flatbuffer(bytes(out.serialize()))


def test_conditions_of_the_specification_are_checked() -> None:
    out = _writer()
    block = out.currRegion.currBasicBlock
    block.addTensor("x", [2], ts.DType.INT32)
    block.addTensor("y", [3], ts.DType.INT32)
    block.addInput("x")
    block.addOperator(ts.Op.ABS, ["x"], ["y"], _record("Abs"))
    block.addOutput("y")
    with pytest.raises(GraphError, match=r"y: ABS gives int32\[2\], tensor 'y' is declared"):
        from_flatbuffer(bytes(out.serialize()))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TosaFileError, match=r"none\.tosa: cannot read: No such file"):
        load_tosa(tmp_path / "none.tosa")
    (tmp_path / "text.tosa").write_text("hello, world")
    with pytest.raises(TosaFileError, match="no TOSA flatbuffer: bytes 4 to 7 are b'o, w'"):
        load_tosa(tmp_path / "text.tosa")


WHOLE = to_flatbuffer(_graph("CONV3D"))


@given(size=st.integers(8, len(WHOLE) - 24))  # the block's name is last, nobody reads it
@settings(max_examples=60, deadline=None)
def test_cut_off_files_are_refused(size: int) -> None:
    with pytest.raises(CompileError):
        from_flatbuffer(WHOLE[:size])


@given(at=st.lists(st.integers(0, len(WHOLE) - 1), min_size=1, max_size=4), to=st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_damaged_files_are_read_or_refused(at: list[int], to: int) -> None:
    data = bytearray(WHOLE)
    for position in at:
        data[position] = to
    try:
        from_flatbuffer(bytes(data)).verify()
    except CompileError as error:
        assert str(error)  # anything else fails the test
