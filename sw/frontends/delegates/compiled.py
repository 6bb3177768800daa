"""A compiled part of a graph as a payload."""

import torch

from sw.compiler.tosa.flatbuffer import to_flatbuffer
from sw.frontends.delegates.payload import Argument, Payload
from sw.torch_backend.compiled_part import Part


def payload_of(part: Part, *, keep_graph: bool = False) -> Payload:
    """A compiled part, its arguments in the order that the part has them.

    keep_graph: store the TOSA graph too, which has the weights a second time.
    """
    compiled, types = part.compiled, [_dtype(t) for t in part.results]
    count = len(compiled.imported.inputs)
    inputs = tuple(
        Argument(port=port, position=i, dtype=_dtype(example), mask=mask)
        for i, (port, example, mask) in enumerate(
            zip(compiled.imported.inputs, part.examples, part.masks, strict=True)
        )
    )
    outputs = tuple(
        Argument(port=port, position=count + i, dtype=dtype)
        for i, (port, dtype) in enumerate(zip(compiled.imported.outputs, types, strict=True))
    )
    return Payload(
        name=part.title,
        policy=compiled.imported.policy or part.policy,
        image=compiled.image,
        inputs=inputs,
        outputs=outputs,
        arguments=count + len(outputs),
        graph=to_flatbuffer(compiled.imported.graph) if keep_graph else b"",
    )


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
