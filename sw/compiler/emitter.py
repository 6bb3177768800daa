"""What the schedules of all layers share: resources, slots, nodes, parameters and tables."""

from dataclasses import dataclass
from typing import Any

from spec.config import NpuConfig
from spec.isa import Opcode, Space
from sw.compiler.constants import ConstantPool, pack_params
from sw.compiler.draft import Access, Buffer, Draft, Node, Place
from sw.compiler.layers import Epilogue
from sw.compiler.slots import Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Draft, constants, tensors in memory, accumulator and table of the program being made."""

    draft: Draft
    constants: ConstantPool
    tensors: dict[str, Buffer]
    acc: Buffer
    table: Buffer


class LayerEmitter:
    """Appends the nodes of layer number `index` to the draft."""

    def __init__(
        self, name: str, epilogue: Epilogue, config: NpuConfig, res: Resources, index: int
    ) -> None:
        self.name, self.epilogue = name, epilogue
        self.config, self.res, self.index = config, res, index

    def slots(self, what: str, place: Place, count: int, size: int) -> Slots:
        """`count` new buffers of `size` in rotation."""
        draft = self.res.draft
        names = [f"{self.name}.{what}{i}" for i in range(count)]
        return Slots([draft.buffer(name, place, size, self.index) for name in names])

    def node(
        self,
        opcode: Opcode,
        values: dict[str, Any],
        bases: dict[str, Buffer],
        accesses: list[Access],
        note: str,
    ) -> None:
        """Append an instruction."""
        node = Node(opcode=opcode, values=values, bases=bases, accesses=accesses, layer=self.index)
        self.append(node, note)

    def append(self, node: Node, note: str) -> None:
        """Append a node that was made elsewhere."""
        node.layer = self.index
        node.note = f"{self.name}: {note}"
        self.res.draft.nodes.append(node)

    def load_params(self, o0: int, o1: int, slot: Buffer) -> None:
        """Load the parameter entries of output channels o0…o1."""
        data = pack_params(self.epilogue, o0, o1, self.config)
        entries = len(data) // self.config.param_entry_bytes
        self._load_constant(data, Space.PARAM, slot, entries, f"params c{o0}")

    def load_table(self) -> None:
        """Load the layer's TABLE, if it has one."""
        if self.epilogue.table is not None:
            data = self.epilogue.table.tobytes()
            self._load_constant(data, Space.TABLE, self.res.table, len(data), "table")

    def table_reads(self) -> list[Access]:
        """The access of a VECTOR to the TABLE, if the layer has one."""
        if self.epilogue.table is None:
            return []
        return [Access(buffer=self.res.table, start=0, stop=256, write=False)]

    def _load_constant(self, data: bytes, space: Space, slot: Buffer, size: int, note: str) -> None:
        source = self.res.constants.buffer
        mem = self.res.constants.add(data)
        self.node(
            Opcode.LOAD,
            {"mem_base": mem, "chip_base": 0, "run": len(data), "space": space, "loop": []},
            {"mem_base": source, "chip_base": slot},
            [
                Access(buffer=source, start=mem, stop=mem + len(data), write=False),
                Access(buffer=slot, start=0, stop=size, write=True),
            ],
            note,
        )
