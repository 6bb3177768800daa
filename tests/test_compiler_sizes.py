"""What is too large is refused before anything is computed, with the figures."""

import re
from dataclasses import replace

import numpy as np
import pytest

from spec import preset
from spec.available import MemoryLimitError
from sw.compiler import compile_graph
from sw.compiler.errors import CompileError, GraphError
from sw.compiler.tosa.file import from_flatbuffer
from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.compiler.tosa.graph import Graph, Tensor

TINY = preset("tiny")


def clamped(shape: tuple[int, ...], inputs: int = 1) -> Graph:
    graph = Graph(name="large")
    for i in range(inputs):
        x = graph.add_input(f"x{i}", shape)
        graph.outputs.append(graph.add_op("CLAMP", [x], {"min_val": 0, "max_val": 100}))
    return graph


@pytest.mark.parametrize(
    ("shape", "size"),
    [((32768, 32768, 32768), 35_184_372_088_832), ((1 << 20, 1 << 20, 1 << 30), 1 << 70)],
)
def test_a_tensor_of_terabytes_is_refused_where_it_is_read(shape, size) -> None:
    message = re.escape(f"tensor 'x0': int8{list(shape)} is {size:,} bytes; a tensor may have 4,29")
    with pytest.raises(GraphError, match=message):
        clamped(shape).verify()
    marks = (7, 11, 13)
    data = to_flatbuffer(clamped(marks))
    data = data.replace(np.array(marks, "<i4").tobytes(), np.array(shape, "<i4").tobytes())
    assert len(data) < 1000
    with pytest.raises(GraphError, match=message):
        from_flatbuffer(data)
    with pytest.raises(GraphError, match=message):
        compile_graph(clamped(shape), TINY)


def test_too_many_dimensions_are_refused() -> None:
    graph = clamped((1, 1))
    graph.add_input("flat", (1,) * 17)
    with pytest.raises(GraphError, match="tensor 'flat': 17 dimensions; at most 16"):
        graph.verify()


def test_tensors_beyond_the_addresses_are_refused() -> None:
    narrow = replace(TINY, axi_addr_bits=32, name="narrow")
    with pytest.raises(CompileError, match=r"of 6,442,450,944 bytes; configuration narrow addres"):
        compile_graph(clamped((1 << 30,), 3), narrow)


def test_what_the_compiler_would_take_is_compared_with_the_memory(monkeypatch) -> None:
    monkeypatch.setattr("spec.available.available_memory", lambda: 1 << 26)
    with pytest.raises(MemoryLimitError, match=r"compiling graph 'large' needs about [\d,]+ bytes"):
        compile_graph(clamped((1 << 25,)), TINY)
    graph = Graph(name="folded")
    one = graph.add_constant("one", np.ones((1, 1), np.int32), "int32")
    times = graph.add_tensor(
        Tensor(name="times", shape=(2,), dtype="shape", data=np.array([1 << 13, 1 << 13]))
    )
    tiled = graph.add_op("TILE", [one, times])
    x = graph.add_input("x", (1, 1), "int32")
    part = graph.add_op(
        "REDUCE_MAX", [graph.add_op("REDUCE_MAX", [tiled], {"axis": 0})], {"axis": 1}
    )
    graph.outputs = [graph.add_op("MAXIMUM", [x, part])]
    monkeypatch.setattr("sw.compiler.pipeline.check_sizes", lambda *_: None)
    with pytest.raises(MemoryLimitError, match=r"constant 'tile' needs about 4,294,967,296 bytes"):
        compile_graph(graph, TINY)
