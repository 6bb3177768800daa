"""Sparse constants of LiteRT files become the dense arrays that LiteRT makes of them."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from litert_files import LiteRtFile, run_litert

from sw.frontends.litert import load_litert
from sw.frontends.litert.errors import LiteRtError


def integers(values):
    vector = schema.Int32VectorT()
    vector.values = list(values)
    return schema.SparseIndexVector.Int32Vector, vector


def sparsity(order, dimensions, blocked=()):
    """dimensions: a size of a dense one, or (segments, indices)."""
    made = schema.SparsityParametersT()
    made.traversalOrder, made.blockMap, made.dimMetadata = list(order), list(blocked), []
    for dimension in dimensions:
        level = schema.DimensionMetadataT()
        if isinstance(dimension, int):
            level.format, level.denseSize = schema.DimensionType.DENSE, dimension
        else:
            level.format = schema.DimensionType.SPARSE_CSR
            level.arraySegmentsType, level.arraySegments = integers(dimension[0])
            level.arrayIndicesType, level.arrayIndices = integers(dimension[1])
        made.dimMetadata.append(level)
    return made


def densify(shape, values, layout):
    """A file that adds a sparse constant to its input."""
    file = LiteRtFile()
    x = file.input(shape)
    data = np.asarray(values, np.float32).tobytes()
    sparse = file.tensor(shape, name="sparse", data=data)
    file.graph.tensors[sparse].sparsity = layout
    dense, y = file.tensor(shape), file.tensor(shape)
    file.operator("DENSIFY", [sparse], [dense], schema.DensifyOptionsT())
    file.operator("ADD", [x, dense], [y], schema.AddOptionsT())
    file.output(y)
    return file.data()


ROWS = sparsity([0, 1], [3, ([0, 2, 2, 3], [0, 3, 1])])
BLOCKS = sparsity([0, 1, 2, 3], [2, ([0, 1, 2], [1, 0]), 2, 2], blocked=[0, 1])


@pytest.mark.parametrize(
    ("shape", "values", "layout"),
    [((3, 4), [1, 2, 3], ROWS), ((4, 4), range(1, 9), BLOCKS)],
    ids=["rows", "blocks"],
)
def test_sparse_constants_are_what_litert_makes_of_them(shape, values, layout):
    data = densify(shape, list(values), layout)
    x = np.zeros(shape, np.float32)
    (expected,) = run_litert(data, [x])
    loaded = load_litert(data)
    (tensor,) = loaded.example
    got = loaded.module(tensor * 0).numpy()
    assert np.count_nonzero(got) == len(list(values))
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    "layout",
    [
        sparsity([0, 1], [3, ([0, 2, 2], [0, 3, 1])]),
        sparsity([0, 1], [3, ([0, 2, 2, 3], [0, 9, 1])]),
        sparsity([0, 1], [3, ([0, 2, 1, 3], [0, 3, 1])]),
        sparsity([0, 0], [3, ([0, 2, 2, 3], [0, 3, 1])]),
        sparsity([0, 1], [3, 1 << 30]),
        sparsity([0, 1, 2], [3, 4, 2], blocked=[7]),
    ],
    ids=["rows", "index", "order of rows", "dimensions", "size", "blocks"],
)
def test_sparse_constants_that_fit_no_shape_are_damaged(layout):
    with pytest.raises(LiteRtError, match="damaged"):
        load_litert(densify((3, 4), [1, 2, 3], layout))
