"""The flatbuffer of a LiteRT file as records; what cannot be taken is refused here."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sw.frontends.litert import schema
from sw.frontends.litert.constants import as_int8, decoded
from sw.frontends.litert.errors import LiteRtError
from sw.frontends.litert.identify import IDENTIFIER
from sw.frontends.litert.records import Array, Contents, Operator, Quantization, Tensor

CONTROL = ("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_WHILE")
"""Operators that run other subgraphs."""

_AGAIN = "copy or convert the file again"
_CONVERT = "convert the model with fixed shapes and without {}"


def read(data: bytes, file: str) -> Contents:
    """The model in `data`; `file`: its name, for messages. `LiteRtError` says what is wrong."""
    if data[4:8] != IDENTIFIER:
        raise LiteRtError(
            f"no LiteRT model: bytes 4 to 8 are {data[4:8]!r}, not {IDENTIFIER!r}",
            file=file,
            hint="give a .tflite file",
        )
    schema.tflite(file)
    try:
        return _Reader(data, file).contents()
    except (LiteRtError, MemoryError):
        raise
    except Exception as error:  # whatever wrong offsets lead to
        raise LiteRtError(
            f"damaged: {type(error).__name__}: {error}", file=file, hint=_AGAIN
        ) from error


class _Reader:
    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file = data, file
        self.model: Any = schema.tflite(file).Model.GetRootAs(data, 0)
        self.kinds: list[str] = []

    def error(self, message: str, hint: str = "", **where: str) -> LiteRtError:
        return LiteRtError(message, file=self.file, hint=hint, **where)

    def contents(self) -> Contents:
        version = self.model.Version()
        if version != schema.VERSION:
            raise self.error(
                f"schema version {version}; version {schema.VERSION} is read",
                "convert the model with a released version of LiteRT",
            )
        count = self.model.SubgraphsLength()
        if not count:
            raise self.error("no subgraph", _AGAIN)
        graph = self.model.Subgraphs(0)
        self.kinds = [self._kind(i) for i in range(self._room(self.model.OperatorCodesLength()))]
        operators = tuple(
            self._operator(graph.Operators(i), i)
            for i in range(self._room(graph.OperatorsLength()))
        )
        if count > 1:
            raise self.error(
                f"{count} subgraphs; models of one are taken",
                "save each signature as a model of its own",
            )
        tensors = tuple(
            self._tensor(graph.Tensors(i), i) for i in range(self._room(graph.TensorsLength()))
        )
        found = Contents(
            file=self.file, tensors=tensors, operators=operators,
            inputs=_integers(graph, "Inputs"), outputs=_integers(graph, "Outputs"),
        )  # fmt: skip
        self._check_indices(found)
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
        kind = schema.builtins().get(number, f"builtin {number}")
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
        self._check_kind(operator)
        return operator

    def _check_kind(self, operator: Operator) -> None:
        kind, where = operator.kind, {"operator": str(operator)}
        if kind.startswith("CUSTOM"):
            raise self.error(
                "custom operators are not taken: their meaning is not in the file",
                _CONVERT.format("custom operators"), **where,
            )  # fmt: skip
        if kind.startswith("builtin"):
            raise self.error(
                "the file's schema is newer: it has operators that package tflite does not know",
                "pip install --upgrade 'systola[tflite]', or convert with an older LiteRT", **where,
            )  # fmt: skip
        if kind in CONTROL:
            raise self.error(
                "control flow is not taken: a program of the NPU has one order of layers",
                _CONVERT.format("loops and branches, unrolled"), **where,
            )  # fmt: skip

    def _check_indices(self, found: Contents) -> None:
        count = len(found.tensors)
        lists = [found.inputs, found.outputs]
        for operator in found.operators:
            lists += [tuple(i for i in operator.inputs if i != -1), operator.outputs]
        wrong = [i for each in lists for i in each if not 0 <= i < count]
        if wrong:
            raise ValueError(f"tensor {wrong[0]} of {count}")

    # Tensors --------------------------------------------------------------------------------------

    def _tensor(self, raw: Any, index: int) -> Tensor:
        name = (raw.Name() or b"").decode(errors="replace") or f"tensor {index}"
        shape = _integers(raw, "Shape")
        stored = self._type(raw, name)
        if raw.Sparsity() is not None:
            raise self.error(
                "sparse tensors are not taken", "convert the model without sparsity", tensor=name
            )
        if min(shape, default=0) < 0:
            raise self.error(
                f"shape {list(shape)}: dynamic shapes are not taken",
                "convert the model with fixed shapes", tensor=name,
            )  # fmt: skip
        quantization = self._quantization(raw, name, shape)
        data = self._data(raw)
        array = None if data is None else self._decoded(data, stored, shape, name)
        dtype = {"int4": "int8", "float16": "float32", "float64": "float32"}.get(stored, stored)
        shifted = stored == "uint8" and quantization is not None
        if shifted and quantization is not None:
            dtype, quantization = "int8", _shifted(quantization)
            array = None if array is None else as_int8(array)
        self._check_quantized(dtype, stored, quantization, array, name)
        return Tensor(
            index=index, name=name, shape=shape, dtype=dtype, quantization=quantization,
            shifted=shifted, data=array, is_fixed=min(_integers(raw, "ShapeSignature"), default=0) >= 0,
        )  # fmt: skip

    def _type(self, raw: Any, name: str) -> str:
        given = schema.tensor_types().get(raw.Type(), f"type {raw.Type()}")
        if given not in schema.TYPES:
            raise self.error(
                f"{given} is not taken; types are {', '.join(schema.TYPES)}",
                _CONVERT.format("other types"), tensor=name,
            )  # fmt: skip
        return schema.TYPES[given]

    def _data(self, raw: Any) -> Array | None:
        """The bytes of a constant; files above 2 GB have them behind the flatbuffer."""
        buffer = self.model.Buffers(raw.Buffer())
        if raw.Buffer() >= self.model.BuffersLength():
            raise ValueError(f"buffer {raw.Buffer()} of {self.model.BuffersLength()}")
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:
            if offset + size > len(self.data):
                raise ValueError(f"a buffer ends at {offset + size} of {len(self.data)} bytes")
            return np.frombuffer(self.data, np.uint8, size, offset)
        length = buffer.DataLength()
        return np.asarray(buffer.DataAsNumpy()) if length else None

    def _decoded(self, data: Array, dtype: str, shape: tuple[int, ...], name: str) -> Array:
        try:
            return decoded(data, dtype, shape)
        except ValueError as error:
            raise self.error(f"damaged: {error}", _AGAIN, tensor=name) from None

    def _quantization(self, raw: Any, name: str, shape: tuple[int, ...]) -> Quantization | None:
        given = raw.Quantization()
        if given is None or not self._room(given.ScaleLength()):
            return None
        if given.DetailsType():
            raise self.error(
                "custom or blockwise quantization is not taken",
                "convert the model with one scale a tensor or a channel", tensor=name,
            )  # fmt: skip
        count = given.ScaleLength()
        scales = tuple(float(v) for v in given.ScaleAsNumpy())
        zeros = tuple(int(given.ZeroPoint(i)) for i in range(self._room(given.ZeroPointLength())))
        zeros = zeros or (0,) * count
        axis = given.QuantizedDimension() if count > 1 else -1
        good = len(zeros) == count and all(0 < s < np.inf for s in scales)
        fits = axis == -1 or (0 <= axis < len(shape) and shape[axis] == count)
        if not good or not fits or not all(abs(z) < 1 << 31 for z in zeros):
            raise self.error(
                f"{count} scales {list(scales[:4])} and {len(zeros)} zero points "
                f"{list(zeros[:4])} along dimension {axis} of shape {list(shape)} fit no tensor",
                _AGAIN, tensor=name,
            )  # fmt: skip
        return Quantization(scale=scales, zero_point=zeros, axis=axis)

    def _check_quantized(
        self, dtype: str, stored: str, q: Quantization | None, data: Array | None, name: str
    ) -> None:
        if q is None or dtype == "float32":
            return
        if data is None and (dtype != "int8" or stored == "int4"):
            raise self.error(
                f"activations of {stored} with a scale are not taken, int8 and uint8 are",
                "quantize the model to int8", tensor=name,
            )  # fmt: skip
        if data is None and (q.axis != -1 or not -128 <= q.zero_point[0] <= 127):
            raise self.error(
                f"an activation with {len(q.scale)} scales and zero point {q.zero_point[0]}",
                "quantize activations with one scale a tensor", tensor=name,
            )  # fmt: skip


def _shifted(q: Quantization) -> Quantization:
    zeros = tuple(z - 128 for z in q.zero_point)
    return Quantization(scale=q.scale, zero_point=zeros, axis=q.axis)


def _integers(raw: Any, field: str) -> tuple[int, ...]:
    """A vector of integers of a flatbuffer's table; () where it has none."""
    length: Callable[[], int] = getattr(raw, f"{field}Length")
    if not length():
        return ()
    return tuple(int(v) for v in getattr(raw, f"{field}AsNumpy")())


def _options(raw: Any) -> Any:
    """The table of an operator's options by its own class; None where there is none."""
    for second, code, table in (
        (False, raw.BuiltinOptionsType(), raw.BuiltinOptions()),
        (True, raw.BuiltinOptions2Type(), raw.BuiltinOptions2()),
    ):
        name = schema.options_name(code, second)
        if table is not None and name != "NONE":
            options = schema.no_options(name)
            options.Init(table.Bytes, table.Pos)
            return options
    return None
