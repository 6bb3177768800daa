"""A small quantized TFLite model, written field by field: no TensorFlow is needed for it.

Field numbers are those of TensorFlow Lite's schema.fbs, version 3.
"""

from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np

_INT8, _INT32 = 9, 2
_ADD, _CONV_2D = 0, 3
_CONV_OPTIONS, _ADD_OPTIONS = 1, 11
_RELU = 1


@dataclass
class Quantized:
    """A tensor: real = scale · (integer − zero_point); constants have `data`."""

    name: str
    shape: tuple[int, ...]
    scale: list[float]
    zero_point: int = 0
    data: np.ndarray | None = None


class Writer:
    """A flatbuffer in the making, children first."""

    def __init__(self) -> None:
        self.b = flatbuffers.Builder(1024)

    def vector(self, values: Any, dtype: str) -> int:
        return self.b.CreateNumpyVector(np.ascontiguousarray(values, dtype))

    def offsets(self, offsets: list[int]) -> int:
        self.b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.b.PrependUOffsetTRelative(offset)
        return self.b.EndVector()

    def table(self, fields: dict[int, tuple[str, int]]) -> int:
        """`fields`: by number (type, value); type is int8, int32, uint32 or offset."""
        self.b.StartObject(max(fields, default=0) + 1)
        for number, (kind, value) in fields.items():
            if kind == "offset":
                self.b.PrependUOffsetTRelativeSlot(number, value, 0)
            else:
                getattr(self.b, f"Prepend{kind.title()}Slot")(number, value, None)
        return self.b.EndObject()


def conv_and_add(x: Quantized, w: Quantized, bias: Quantized, c: Quantized, y: Quantized) -> bytes:
    """y = relu(conv(x, w) + bias) → c, then c + c: CONV_2D (VALID, stride 1) and ADD."""
    out = Writer()
    tensors = [x, w, bias, c, y]
    buffers = [out.table({})]
    rows = []
    for tensor in tensors:
        buffer = 0
        if tensor.data is not None:
            data = out.vector(np.frombuffer(tensor.data.tobytes(), np.uint8), "u1")
            buffers.append(out.table({0: ("offset", data)}))
            buffer = len(buffers) - 1
        scale = out.vector(tensor.scale, "<f4")
        zero = out.vector([tensor.zero_point] * len(tensor.scale), "<i8")
        quantization = out.table({2: ("offset", scale), 3: ("offset", zero)})
        kind = _INT32 if tensor is bias else _INT8
        shape, name = out.vector(tensor.shape, "<i4"), out.b.CreateString(tensor.name)
        rows.append(
            out.table(
                {
                    0: ("offset", shape),
                    1: ("int8", kind),
                    2: ("uint32", buffer),
                    3: ("offset", name),
                    4: ("offset", quantization),
                }
            )
        )
    codes = [
        out.table({0: ("int8", code), 2: ("int32", 1), 3: ("int32", code)})
        for code in (_CONV_2D, _ADD)
    ]
    conv = out.table(
        {
            0: ("int8", 1),
            1: ("int32", 1),
            2: ("int32", 1),
            3: ("int8", _RELU),
            4: ("int32", 1),
            5: ("int32", 1),
        }
    )
    operators = [
        _operator(out, 0, [0, 1, 2], [3], _CONV_OPTIONS, conv),
        _operator(out, 1, [3, 3], [4], _ADD_OPTIONS, out.table({})),
    ]
    fields = {
        0: ("offset", out.offsets(rows)),
        1: ("offset", out.vector([0], "<i4")),
        2: ("offset", out.vector([4], "<i4")),
        3: ("offset", out.offsets(operators)),
        4: ("offset", out.b.CreateString("main")),
    }
    graph = out.offsets([out.table(fields)])
    model = {
        0: ("uint32", 3),
        1: ("offset", out.offsets(codes)),
        2: ("offset", graph),
        4: ("offset", out.offsets(buffers)),
    }
    out.b.Finish(out.table(model), file_identifier=b"TFL3")
    return bytes(out.b.Output())


def _operator(
    out: Writer, code: int, inputs: list[int], outputs: list[int], kind: int, options: int
) -> int:
    given, made = out.vector(inputs, "<i4"), out.vector(outputs, "<i4")
    return out.table(
        {
            0: ("uint32", code),
            1: ("offset", given),
            2: ("offset", made),
            3: ("uint8", kind),
            4: ("offset", options),
        }
    )
