"""Samples for a model: arrays of files as calls of the model, run by run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.errors import SystolaError
from sw.runtime.arrays import converted, load_array

Array = NDArray[Any]
Run = tuple[Array, ...]
"""The tensors of one call of the model, in its order."""


class SampleError(SystolaError, ValueError):
    """Arrays that are no inputs of the model."""


def read_runs(files: Sequence[Path], option: str, examples: Sequence[Array]) -> list[Run]:
    """The runs in `.npy` files, one file per input of the model.

    A file holds an input as the example has it, several of them one after another along the first
    dimension (a whole multiple of the example's), or several along a dimension of their own in
    front. `SampleError` says what does not fit.
    """
    if len(files) != len(examples):
        raise SampleError(
            f"{option}: {len(files)} files given, the model takes {len(examples)} inputs"
        )
    columns = [_column(f, option, e) for f, e in zip(files, examples, strict=True)]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        pairs = zip(files, counts, strict=True)
        shown = ", ".join(f"{file} {count}" for file, count in pairs)
        raise SampleError(f"{option}: different numbers of samples: {shown}")
    return list(zip(*columns, strict=True))


def read_examples(files: Sequence[Path], option: str) -> list[Array]:
    """The arrays of a model whose inputs are not known: floats as float32, integers as int64."""
    arrays = []
    for file in files:
        array = load_array(file, f"{option} {file}")
        if not array.size:
            raise SampleError(f"{option} {file}: shape {list(array.shape)} has no samples")
        kind = {"f": "float32", "b": "bool"}.get(array.dtype.kind, "int64")
        arrays.append(converted(array, kind, f"{option} {file}"))
    return arrays


def _column(file: Path, option: str, example: Array) -> list[Array]:
    where = f"{option} {file}"
    array = converted(load_array(file, where), str(example.dtype), where, takes="the model")
    shape, wanted = array.shape, example.shape
    if not array.size:
        raise SampleError(f"{where}: shape {list(shape)} has no samples")
    if wanted and shape[1:] == wanted[1:] and len(shape) == len(wanted):
        if shape[0] % wanted[0] == 0:
            return [*np.split(array, shape[0] // wanted[0])]
    elif shape[1:] == wanted and shape:
        return [*array]
    raise SampleError(
        f"{where}: shape {list(shape)}; the model takes {list(wanted)}, or a multiple of its first "
        "dimension"
        if wanted
        else f"{where}: shape {list(shape)}; the model takes a single number"
    )
