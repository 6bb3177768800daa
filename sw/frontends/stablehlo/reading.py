"""MLIR's objects as records: the only file that knows jaxlib's bindings."""

import itertools
import re
from typing import Any

import numpy as np

from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.identify import BYTECODE
from sw.frontends.stablehlo.records import Body, Contents, Op, Type

INSTALL = "pip install 'systola[jax]'"


def read(data: bytes) -> Contents:
    """The records of a module in text or bytecode. `StableHloError` has MLIR's own message."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, stablehlo
    except ImportError as error:
        raise StableHloError(f"jaxlib is needed to read it ({error})", hint=INSTALL) from None
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    with context:
        return _Reader(_module(data, context)).contents()


def _module(data: bytes, context: Any) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    try:
        if data.startswith(BYTECODE) and b"StableHLO" in data[:64]:
            module = stablehlo.deserialize_portable_artifact(context, data)
        else:
            module = ir.Module.parse(data, context)
        module.operation.verify()
    except Exception as error:  # MLIRError, and what nanobind makes of others
        lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
        reason = " ".join(lines[:2]) or str(error).splitlines()[0]
        newer = "write it again by jax.export; newer versions of StableHLO need a newer jaxlib"
        raise StableHloError(
            f"MLIR cannot parse it: {reason[:400]}",
            hint=_QUANTIZED if '"quant"' in reason else newer,
        ) from None
    return module


class _Reader:
    """Gives numbers to values, in their order."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.numbers: dict[Any, int] = {}
        self.types: dict[int, Type] = {}
        self.count = itertools.count()
        self.resources: dict[str, str] = {}

    def contents(self) -> Contents:
        functions: dict[str, Body] = {}
        signatures: dict[str, Any] = {}
        for each in self.module.body.operations:
            operation = each.operation
            if operation.name != "func.func":
                raise StableHloError(
                    f"a {operation.name} beside the functions", hint="export one function",
                    place=_place(operation.location),
                )  # fmt: skip
            name = operation.attributes["sym_name"].value
            if not len(operation.regions[0].blocks):
                raise StableHloError(f"function {name} has no body", hint="export it with its body")
            functions[name] = self._body(operation.regions[0])
            signatures[name] = operation
        if not functions:
            raise StableHloError("a module without a function", hint="export it again")
        main = "main" if "main" in functions else next(iter(functions))
        inputs, outputs = _names(signatures[main])
        return Contents(
            functions=functions, types=self.types, main=main, inputs=inputs, outputs=outputs
        )

    def _body(self, region: Any) -> Body:
        if len(region.blocks) != 1:
            raise StableHloError("a function of several blocks", hint="export it by jax.export")
        block = region.blocks[0]
        arguments = tuple(self._new(value) for value in block.arguments)
        *inside, last = [each.operation for each in block.operations]
        return Body(
            arguments=arguments,
            ops=tuple(self._op(each) for each in inside),
            returned=tuple(self.numbers[value] for value in last.operands),
        )

    def _op(self, operation: Any) -> Op:
        place = _place(operation.location)
        kind = operation.name.removeprefix("stablehlo.")
        try:
            return Op(
                kind=kind,
                operands=tuple(self.numbers[value] for value in operation.operands),
                attributes={
                    name: self._attribute(operation.attributes[name], name == "value")
                    for name in operation.attributes
                },
                regions=tuple(self._body(region) for region in operation.regions),
                results=tuple(self._new(value) for value in operation.results),
                place=place,
            )
        except StableHloError as error:
            raise error.at(operation=operation.name, place=place) from None

    def _attribute(self, found: Any, is_value: bool) -> Any:
        made = _attribute(found, is_value)
        resource = _RESOURCE.match(made) if isinstance(made, str) else None
        return made if resource is None else self._resource(resource[1], found)

    def _resource(self, name: str, found: Any) -> Any:
        """The elements of a `dense_resource`: the bindings do not give them, the text does."""
        from jaxlib.mlir import ir

        if not self.resources:
            self.resources = dict(_BLOB.findall(self.module.operation.get_asm()))
        kind = type_of(ir.DenseResourceElementsAttr(found).type)
        blob = bytes.fromhex(self.resources.get(name, ""))[4:]  # behind the alignment
        dtype = _STORED.get(kind.element)
        if dtype is None or len(blob) != kind.elements * np.dtype(dtype).itemsize:
            raise StableHloError(
                f"resource {name} is no {kind}", hint="print the module without eliding constants"
            )
        return np.frombuffer(blob, dtype).reshape(kind.shape)

    def _new(self, value: Any) -> int:
        number = self.numbers[value] = next(self.count)
        self.types[number] = type_of(value.type)
        return number


_RESOURCE = re.compile(r'dense_resource<"?([^">]+)"?>')
_BLOB = re.compile(r'"?([\w.$-]+)"?: "0x([0-9A-Fa-f]+)"')
_STORED = {
    "f32": "<f4", "f16": "<f2", "f64": "<f8", "i1": "?", "i8": "i1", "i16": "<i2", "i32": "<i4",
    "i64": "<i8", "ui8": "u1", "ui16": "<u2", "ui32": "<u4",
}  # fmt: skip
"""Of resources, as NumPy calls them."""


_QUANTIZED = "quantized types are not read; give the float model, which compiling quantizes"


def type_of(found: Any) -> Type:
    """The record of an MLIR type; `StableHloError` for what is no tensor of a fixed shape."""
    from jaxlib.mlir import ir

    if not isinstance(found, ir.RankedTensorType):
        raise StableHloError(f"a value of type {found}", hint="use tensors")
    if not found.has_static_shape:
        raise StableHloError(
            f"a value of type {found}: its shape is not fixed",
            hint="export with arguments of fixed shapes, without symbolic dimensions",
        )
    shape, element = tuple(found.shape), str(found.element_type)
    if element.startswith("!quant"):
        raise StableHloError(f"elements of type {element}", hint=_QUANTIZED)
    return Type(shape=shape, element=element)


def _names(function: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of inputs: as the locations call them. Of outputs: as `jax.result_info` does."""
    block = function.regions[0].blocks[0]
    inputs = []
    for i, argument in enumerate(block.arguments):
        found = re.match(r'loc\("([^"]+)"\)', str(argument.location))
        inputs.append(found[1] if found else f"arg{i}")
    last = block.operations[len(block.operations) - 1]
    outputs = [f"result{i}" for i, _ in enumerate(last.operation.operands)]
    return tuple(inputs), tuple(outputs)


def _place(location: Any) -> str:
    """`file.py:12`, else what MLIR says; "" for unknown ones."""
    text = str(location)[4:-1]
    lines = re.findall(r'"([^"]+)":(\d+)', text)
    named = [f"{file}:{line}" for file, line in lines if file != "-"]
    if named:
        return named[0]
    return "" if text == "unknown" else text[:100]


_DIMENSIONS = {
    "DotDimensionNumbers": (
        "lhs_batching_dimensions", "rhs_batching_dimensions",
        "lhs_contracting_dimensions", "rhs_contracting_dimensions",
    ),
    "ConvDimensionNumbers": (
        "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
        "kernel_input_feature_dimension", "kernel_output_feature_dimension",
        "kernel_spatial_dimensions", "output_batch_dimension", "output_feature_dimension",
        "output_spatial_dimensions",
    ),
    "GatherDimensionNumbers": (
        "offset_dims", "collapsed_slice_dims", "operand_batching_dims",
        "start_indices_batching_dims", "start_index_map", "index_vector_dim",
    ),
    "ScatterDimensionNumbers": (
        "update_window_dims", "inserted_window_dims", "input_batching_dims",
        "scatter_indices_batching_dims", "scattered_dims_to_operand_dims", "index_vector_dim",
    ),
}  # fmt: skip
_WORD = re.compile(r"#stablehlo<\w+ (\w+)>|#chlo<\w+ (\w+)>")


def _attribute(found: Any, is_value: bool = False) -> Any:
    """An attribute as Python has it; its text where there is nothing better."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    if isinstance(found, ir.DenseElementsAttr):
        return _dense(found, is_value)
    if isinstance(found, ir.FlatSymbolRefAttr | ir.StringAttr):
        return found.value
    if isinstance(found, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
        return found.value
    if isinstance(found, ir.ArrayAttr):
        return tuple(map(_attribute, found))
    if isinstance(found, ir.DenseI64ArrayAttr | ir.DenseI32ArrayAttr | ir.DenseBoolArrayAttr):
        return tuple(found)
    for name, fields in _DIMENSIONS.items():
        kind = getattr(stablehlo, name)
        if kind.isinstance(found):
            numbers = kind(found)
            return {field: _plain(getattr(numbers, field)) for field in fields}
    text = str(found)
    word = _WORD.fullmatch(text)
    return (word[1] or word[2]) if word else text


def _plain(value: Any) -> Any:
    return value if isinstance(value, int) else tuple(value)


def _dense(found: Any, is_value: bool) -> Any:
    """The elements as an array. is_value: a constant, of one element where all are the same."""
    kind = type_of(found.type)
    if kind.element not in _READABLE:
        raise StableHloError(
            f"a constant of {kind.element}", hint="use constants of float32, integers or bools"
        )
    if kind.element == "bf16":
        array = _bfloat16(str(found))
    elif found.is_splat and kind.elements:
        array = np.array([found[0]])
    else:
        array = np.array(found)
    if array.size != 1:
        return array.reshape(kind.shape)
    return array if is_value else np.broadcast_to(array, kind.shape).copy()


_READABLE = (
    "i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32", "f64",
)  # fmt: skip


def _bfloat16(text: str) -> Any:
    """Constants that the bindings do not give: from their text, which has numbers or bits."""
    inside = text[text.index("<") + 1 : text.rindex("> : ")]
    if inside.startswith('"0x'):
        bits = np.frombuffer(bytes.fromhex(inside[3:-1]), "<u2")
        return (bits.astype("<u4") << 16).view(np.float32)
    words = re.findall(r"0x[0-9A-F]+|[-+.0-9E]+", inside, re.IGNORECASE)
    values = [
        (np.array(int(word, 16), "<u4") << 16).view(np.float32)
        if word.startswith("0x")
        else float(word)
        for word in words
    ]
    return np.array(values, np.float32)
