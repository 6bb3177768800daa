"""TOSA 1.0 flatbuffers as graphs: what `systola compile net.tosa` reads.

A file has one region with one basic block. CONST and CONST_SHAPE become constants of the graph; a
graph output that no operator writes (a constant, an input, one named twice) gets an IDENTITY, so
that the device writes every result.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sw.compiler.errors import CompileError, GraphError
from sw.compiler.tosa import schema
from sw.compiler.tosa.double_round import add_double_round
from sw.compiler.tosa.flatbuffer_tables import FormatError, Table
from sw.compiler.tosa.graph import DTYPES, Graph, Op, Tensor
from sw.compiler.tosa.table import OPERATORS, complete_attributes

_IDENTIFIER = b"TOSA"
_VERSION = (1, 0)
_ELEMENTS = {
    "BOOL": ("bool", "<u1"),
    "INT8": ("int8", "<i1"),
    "INT16": ("int16", "<i2"),
    "INT32": ("int32", "<i4"),
}


class TosaFileError(CompileError):
    """A file that is no TOSA 1.0 flatbuffer, or holds what the integer profile does not."""


def load_tosa(path: str | Path) -> Graph:
    """The verified graph of a `.tosa` file, named after it; `CompileError` says what is wrong."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TosaFileError(f"{path}: cannot read: {error.strerror}") from None
    return from_flatbuffer(data, path.stem, str(path))


def from_flatbuffer(data: bytes, name: str = "graph", where: str = "TOSA flatbuffer") -> Graph:
    """The verified graph in `data`; `where` begins the messages about the file itself."""
    if data[4:8] != _IDENTIFIER:
        raise TosaFileError(
            f"{where}: no TOSA flatbuffer: bytes 4 to 7 are {data[4:8]!r}, not {_IDENTIFIER!r}"
        )
    try:
        graph = _Reader(Table.root(data), name, where).graph
    except FormatError as error:
        raise TosaFileError(f"{where}: cut off or damaged: {error}") from None
    graph.verify()
    return graph


class _Reader:
    """Builds the graph of one file."""

    def __init__(self, root: Table, name: str, where: str) -> None:
        self.where = where
        self.graph = Graph(name=name)
        self._check_version(root)
        block = self._block(root)
        self.operators = list(block.tables(1))
        self.constants = self._constant_names()
        for entry in block.tables(2):
            self._tensor(entry)
        for entry in block.tables(5):
            self._shape(entry)
        for port in block.texts(3):
            self._known(port, "graph input")
            self.graph.inputs.append(port)
        for entry in self.operators:
            self._operator(entry)
        self._outputs(block.texts(4))
        self._name_ports()

    def error(self, message: str, hint: str = "") -> TosaFileError:
        return TosaFileError(f"{self.where}: {message}", hint=hint)

    def _check_version(self, root: Table) -> None:
        version = root.table(0)
        if version is None:
            raise self.error("names no TOSA version")
        major, minor, patch = (version.number(i, default=-1) for i in range(3))
        draft = version.number(3, "<B", 1)
        if (major, minor) != _VERSION:  # the official suite is marked 1.0.2-draft
            raise self.error(
                f"made for TOSA {major}.{minor}.{patch}{'-draft' if draft else ''}",
                hint="this release reads TOSA 1.0; ask the producer for target version 1.0",
            )

    def _block(self, root: Table) -> Table:
        regions = list(root.tables(1))
        blocks = [block for region in regions for block in region.tables(1)]
        if len(regions) != 1 or len(blocks) != 1:
            raise self.error(
                f"{len(regions)} regions with {len(blocks)} blocks: control flow is not supported",
                hint="one region with one basic block",
            )
        return blocks[0]

    def _constant_names(self) -> set[str]:
        kinds = ("CONST", "CONST_SHAPE")
        return {
            name for op in self.operators if _kind(op.number(0)) in kinds for name in op.texts(4)
        }

    def _tensor(self, entry: Table) -> None:
        name, shape = entry.text(0), tuple(int(v) for v in entry.vector(1, "<i4").tolist())
        kind = _name(schema.DTYPES, entry.number(2))
        if kind not in _ELEMENTS:
            raise self.error(
                f"tensor {name!r} has type {kind}; types are {', '.join(_ELEMENTS)}",
                hint="quantize the network: the device computes with integers",
            )
        if entry.flag(4) or entry.flag(5) or any(size < 0 for size in shape):
            raise self.error(f"tensor {name!r} {list(shape)} must be of fixed shape, no variable")
        dtype, stored = _ELEMENTS[kind]
        data = None
        if name in self.constants:
            if entry.number(7, "<Q") > 1:
                raise self.error(f"constant {name!r} lies in another file")
            data = self._values(name, entry.vector(3, "<u1"), stored, shape).astype(DTYPES[dtype])
        self.graph.add_tensor(Tensor(name=name, shape=shape, dtype=dtype, data=data))

    def _shape(self, entry: Table) -> None:
        name, rank = entry.text(0), entry.number(1, "<I")
        if name not in self.constants:
            raise self.error(f"shape {name!r} must be a CONST_SHAPE: shapes are constants")
        data = self._values(name, entry.vector(2, "<u1"), "<i8", (rank,)).astype(np.int64)
        self.graph.add_tensor(Tensor(name=name, shape=(rank,), dtype="shape", data=data))

    def _values(
        self, name: str, data: NDArray[Any], stored: str, shape: tuple[int, ...]
    ) -> NDArray[Any]:
        size = int(np.prod(shape, dtype=object))
        # Writers pad the bytes of small constants up to a multiple of eight.
        need = size * np.dtype(stored).itemsize
        if data.size < need:
            raise self.error(f"constant {name!r} {list(shape)}: {data.size} bytes, needs {need}")
        return np.frombuffer(data[:need].tobytes(), stored).reshape(shape)

    def _known(self, name: str, what: str) -> None:
        if name not in self.graph.tensors:
            raise self.error(f"{what} {name!r} is no tensor of the graph")

    def _operator(self, entry: Table) -> None:
        kind, inputs, outputs = _kind(entry.number(0)), entry.texts(3), entry.texts(4)
        if kind in ("CONST", "CONST_SHAPE"):
            for name in outputs:
                self._known(name, f"output of {kind}")
            return
        location = entry.table(5)
        op = Op(
            kind=kind,
            name=outputs[0] if outputs else kind.lower(),
            inputs=inputs,
            outputs=outputs,
            source=location.text(0) if location is not None else "",
        )
        if kind not in OPERATORS:
            raise GraphError(
                f"operator {kind} is not in TOSA's integer profile",
                node=op.name,
                source=op.source,
                hint=f"operators: {', '.join(OPERATORS)}",
            )
        for name in (*inputs, *outputs):
            self._known(name, f"{kind} {op.name!r}: operand")
        record = entry.table(2)
        fields = schema.ATTRIBUTES.get(kind, ())
        if fields and record is None:
            raise self.error(f"{kind} {op.name!r} has no attributes")
        given = {
            attribute: self._attribute(op, record, index, form)
            for attribute, index, form in fields
            if record is not None
        }
        op.attributes = complete_attributes(op, given)
        if op.attributes.get("rounding_mode") == "DOUBLE_ROUND" and len(inputs) == 5:
            add_double_round(self.graph, op)
        else:
            self.graph.ops.append(op)

    def _attribute(self, op: Op, record: Table, index: int, form: str) -> Any:
        if form == "ints":
            return tuple(int(v) for v in record.vector(index, "<i4").tolist())
        if form == "flag":
            return record.flag(index)
        if form == "value":
            return self._limit(op, record.vector(index, "<u1"))
        number = record.number(index)
        if form == "dtype":
            return _name(schema.DTYPES, number).lower()
        names = {"resize": schema.RESIZE_MODES, "rounding": schema.ROUNDING_MODES}.get(form)
        return number if names is None else _name(names, number)

    def _limit(self, op: Op, data: NDArray[Any]) -> int:
        """A limit of CLAMP: one element of its operand's type."""
        if not op.inputs:
            raise self.error(f"{op.kind} {op.name!r} has no operand")
        dtype = self.graph.tensors[op.inputs[0]].dtype
        stored = dict(_ELEMENTS.values()).get(dtype)
        if stored is None:
            raise self.error(f"{op.kind} {op.name!r}: operand is of type {dtype}")
        return int(self._values(f"limit of {op.name}", data, stored, (1,))[0])

    def _outputs(self, names: Sequence[str]) -> None:
        written = {name for op in self.graph.ops for name in op.outputs}
        for name in names:
            self._known(name, "graph output")
            if name in written and name not in self.graph.outputs:
                self.graph.outputs.append(name)
                continue
            source = name
            if self.graph.tensors[name].is_constant:  # the result keeps the name
                source = self._rename(name, self.graph.fresh_name(f"{name}_value"))
            self.graph.outputs.append(self.graph.add_op("IDENTITY", [source], output=name))

    def _rename(self, old: str, new: str) -> str:
        g = self.graph
        tensor = g.tensors[old]
        g.tensors = {new if name == old else name: t for name, t in g.tensors.items()}
        g.tensors[new] = Tensor(name=new, shape=tensor.shape, dtype=tensor.dtype, data=tensor.data)
        for op in g.ops:
            op.inputs = [new if name == old else name for name in op.inputs]
            op.outputs = [new if name == old else name for name in op.outputs]
        g.inputs = [new if name == old else name for name in g.inputs]
        g.outputs = [new if name == old else name for name in g.outputs]
        return new

    def _name_ports(self) -> None:
        """Ports are files' names at the command line: no slashes."""
        for name in (*self.graph.inputs, *self.graph.outputs):
            plain = name.replace("/", "_").replace("\\", "_").replace("\0", "_") or "tensor"
            if plain != name and name in self.graph.tensors:
                self._rename(name, self.graph.fresh_name(plain))


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"number {number}"


def _kind(number: int) -> str:
    return _name(schema.OPERATORS, number)
