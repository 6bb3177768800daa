"""The flatbuffer of a LiteRT file as records; what cannot be taken is refused here."""

from typing import Any

import numpy as np

from sw.frontends.litert import schema
from sw.frontends.litert.biases import bounded
from sw.frontends.litert.constants import WORKING, as_int8, decoded
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.litert.identify import IDENTIFIER
from sw.frontends.litert.pads import fused
from sw.frontends.litert.records import Array, Contents, Operator, Quantization, Tensor
from sw.frontends.litert.sparse import densified

CONTROL = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_WHILE")
"""Operators that run other subgraphs."""

_AGAIN = "copy or convert the file again"
_CONVERT = "convert the model with fixed shapes and without {}"


def read(data: bytes, file: str) -> Contents:
    """The model in `data`; `file`: its name, for messages. `LiteRtError` says what is wrong."""
    if data[4:8] != IDENTIFIER:
        raise LiteRtError(
            f"no LiteRT model: bytes 4 to 8 are {data[4:8]!r}, not {IDENTIFIER!r}",
            file=file, hint="give a .tflite file",
        )  # fmt: skip
    schema.tflite(file)
    try:
        return bounded(fused(_Reader(data, file).contents()))
    except (LiteRtError, MemoryError):
        raise
    except Exception as error:  # whatever wrong offsets lead to
        what = f"damaged: {type(error).__name__}: {error}"
        raise LiteRtError(what, file=file, hint=_AGAIN) from error


class _Reader:
    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file = data, file
        self.model: Any = schema.tflite(file).Model.GetRootAs(data, 0)
        self.kinds: list[str] = []

    def error(self, message: str, hint: str, tensor: str = "", operator: str = "") -> LiteRtError:
        return LiteRtError(message, file=self.file, hint=hint, tensor=tensor, operator=operator)

    def contents(self) -> Contents:
        version, count = self.model.Version(), self.model.SubgraphsLength()
        if version != schema.VERSION:
            raise self.error(
                f"schema version {version}; version {schema.VERSION} is read",
                "convert the model with a released version of LiteRT",
            )
        if not count:
            raise self.error("no subgraph", _AGAIN)
        graph = self.model.Subgraphs(0)
        self.kinds = [self._kind(i) for i in range(self._room(self.model.OperatorCodesLength()))]
        numbers = range(self._room(graph.OperatorsLength()))
        operators = tuple(self._operator(graph.Operators(i), i) for i in numbers)
        if count > 1:
            raise self.error(
                f"{count} subgraphs; models of one are taken",
                "save each signature as a model of its own",
            )
        tensors = range(self._room(graph.TensorsLength()))
        found = Contents(
            file=self.file, tensors=tuple(self._tensor(graph.Tensors(i), i) for i in tensors),
            operators=operators, inputs=_integers(graph, "Inputs"),
            outputs=_integers(graph, "Outputs"),
        )  # fmt: skip
        named = [i for o in operators for i in (*o.outputs, *o.inputs) if i != -1]
        for i in (*found.inputs, *found.outputs, *named):
            if not 0 <= i < len(found.tensors):
                raise ValueError(f"tensor {i} of {len(found.tensors)}")
        return found

    def _room(self, length: int) -> int:
        """A vector's length, which a damaged file may have as anything."""
        if length * 4 > len(self.data):
            raise ValueError(f"a vector of {length} elements in {len(self.data)} bytes")
        return length

    # Operators ------------------------------------------------------------------------------------

    def _kind(self, index: int) -> str:
        code = self.model.OperatorCodes(index)
        number = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
        kind = schema.names("BuiltinOperator").get(number, f"builtin {number}")
        if kind == "CUSTOM":
            return f"CUSTOM {(code.CustomCode() or b'').decode(errors='replace')}"
        return kind

    def _operator(self, raw: Any, number: int) -> Operator:
        index = raw.OpcodeIndex()
        if index >= len(self.kinds):
            raise ValueError(f"operator {number} is of code {index} of {len(self.kinds)}")
        operator = Operator(
            number=number, kind=self.kinds[index], inputs=_integers(raw, "Inputs"),
            outputs=_integers(raw, "Outputs"), options=_options(raw),
        )  # fmt: skip
        why = _refused(operator.kind)
        if why:
            raise self.error(*why, operator=str(operator))
        return operator

    # Tensors --------------------------------------------------------------------------------------

    def _tensor(self, raw: Any, index: int) -> Tensor:
        name = (raw.Name() or b"").decode(errors="replace") or f"tensor {index}"
        stored, shape = self._type(raw, name), _integers(raw, "Shape")
        if min(shape, default=0) < 0:
            what = f"shape {list(shape)}: dynamic shapes are not taken"
            raise self.error(what, "convert the model with fixed shapes", name)
        q, data = self._quantization(raw, name, shape), self._data(raw)
        try:
            sparsity = raw.Sparsity()
            array = None if data is None else decoded(data, stored, shape, sparsity is not None)
            if sparsity is not None and array is not None:
                array = densified(array, shape, sparsity, self.file)
        except ValueError as error:
            raise self.error(f"damaged: {error}", _AGAIN, name) from None
        dtype, shifted = WORKING.get(stored, stored), stored == "uint8" and q is not None
        if shifted and q is not None:
            zeros = tuple(z - 128 for z in q.zero_point)
            dtype, q = "int8", Quantization(scale=q.scale, zero_point=zeros, axis=q.axis)
            array = None if array is None else as_int8(array)
        if q is not None and array is None and dtype != "float32":
            self._check_activation(dtype, stored, q, name)
        return Tensor(
            index=index, name=name, shape=shape, dtype=dtype, quantization=q, shifted=shifted,
            data=array, signature=_integers(raw, "ShapeSignature"),
        )  # fmt: skip

    def _type(self, raw: Any, name: str) -> str:
        given = schema.names("TensorType").get(raw.Type(), f"type {raw.Type()}")
        if given not in schema.TYPES:
            what = f"{given} is not taken; types are {', '.join(schema.TYPES)}"
            raise self.error(what, _CONVERT.format("other types"), name)
        return given.lower()

    def _data(self, raw: Any) -> Array | None:
        """The bytes of a constant; files above 2 GB have them behind the flatbuffer."""
        if raw.Buffer() >= self.model.BuffersLength():
            raise ValueError(f"buffer {raw.Buffer()} of {self.model.BuffersLength()}")
        buffer = self.model.Buffers(raw.Buffer())
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:
            return np.frombuffer(self.data, np.uint8, size, offset)
        return np.asarray(buffer.DataAsNumpy()) if buffer.DataLength() else None

    def _quantization(self, raw: Any, name: str, shape: tuple[int, ...]) -> Quantization | None:
        given = raw.Quantization()
        count = 0 if given is None else self._room(given.ScaleLength())
        if not count:
            return None
        if given.DetailsType():
            raise self.error(
                "custom or blockwise quantization is not taken",
                "convert the model with one scale a tensor or a channel", name,
            )  # fmt: skip
        scales = tuple(float(v) for v in given.ScaleAsNumpy())
        zeros = _integers(given, "ZeroPoint") or (0,) * count
        axis = given.QuantizedDimension() if count > 1 else -1
        good = len(zeros) == count and all(0 < s < np.inf for s in scales)
        fits = axis == -1 or (0 <= axis < len(shape) and shape[axis] == count)
        if not good or not fits or not all(abs(z) < 1 << 31 for z in zeros):
            raise self.error(
                f"{count} scales {list(scales[:4])} and {len(zeros)} zero points "
                f"{list(zeros[:4])} along dimension {axis} of shape {list(shape)} fit no tensor",
                _AGAIN, name,
            )  # fmt: skip
        return Quantization(scale=scales, zero_point=zeros, axis=axis)

    def _check_activation(self, dtype: str, stored: str, q: Quantization, name: str) -> None:
        if dtype != "int8" or stored == "int4":
            what = f"activations of {stored} with a scale are not taken, int8 and uint8 are"
            raise self.error(what, "quantize the model to int8", name)
        if q.axis != -1 or not -128 <= q.zero_point[0] <= 127:
            what = f"an activation with {len(q.scale)} scales and zero point {q.zero_point[0]}"
            raise self.error(what, "quantize activations with one scale a tensor", name)


def _refused(kind: str) -> tuple[str, str] | None:
    """(why, what to do) for what is no operator of the schema, or runs other subgraphs."""
    if kind.startswith("CUSTOM"):
        return (
            "custom operators are not taken: their meaning is not in the file",
            _CONVERT.format("custom operators"),
        )
    if kind.startswith("builtin"):
        return (
            "the file's schema is newer: it has operators that package tflite does not know",
            "pip install --upgrade 'systola[tflite]', or convert with an older LiteRT",
        )
    if kind in CONTROL:
        return (
            "control flow is not taken: a program of the NPU has one order of layers",
            _CONVERT.format("loops and branches, unrolled"),
        )
    return None


def _integers(raw: Any, field: str) -> tuple[int, ...]:
    """A vector of integers of a flatbuffer's table; () where it has none."""
    length, values = getattr(raw, f"{field}Length"), getattr(raw, f"{field}AsNumpy")
    return tuple(map(int, values())) if length() else ()


def _options(raw: Any) -> Any:
    """The table of an operator's options by its own class; None where there is none."""
    for union, code, table in (
        ("BuiltinOptions", raw.BuiltinOptionsType(), raw.BuiltinOptions()),
        ("BuiltinOptions2", raw.BuiltinOptions2Type(), raw.BuiltinOptions2()),
    ):
        if code and table is not None:
            options = schema.no_options(schema.names(union)[code])
            options.Init(table.Bytes, table.Pos)
            return options
    return None
