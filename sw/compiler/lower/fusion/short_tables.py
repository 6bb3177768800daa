"""TABLE of int16 with the RESCALE to int8 behind it, as one lookup without its lower bits."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.numerics import short_table
from sw.compiler.tosa.graph import Graph, Op


def shortened(graph: Graph, entries: NDArray[Any], rescale: Op) -> NDArray[np.int16] | None:
    """The entries of the TABLE that does both; None where there are none (`short_table`).

    entries: 513 int16; `rescale` alone reads what is looked up.
    """
    attributes = rescale.attributes
    if (
        graph.tensors[rescale.outputs[0]].dtype != "int8"
        or attributes.get("per_channel")
        or attributes.get("input_unsigned")
        or attributes.get("output_unsigned")
        or any(not graph.tensors[name].is_constant for name in rescale.inputs[1:])
    ):
        return None
    multiplier, shift, from_zero, to_zero = (
        int(graph.constant(name).reshape(-1)[0]) for name in rescale.inputs[1:]
    )
    return None if from_zero else short_table(entries, multiplier, shift, to_zero)
