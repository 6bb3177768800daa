"""What instructions share that differ only in base addresses and semaphores.

A network has thousands of instructions and some hundred shapes. Loop nests are enumerated once per
shape, and everything that follows from them is computed once per shape.
"""

from typing import Any

from golden_model.loops import Chunks, Nest
from spec.codec import ROWS, Bits
from spec.isa import Instruction, Opcode, Point, Sync

_BASES = ("mem_base", "chip_base", "act_base", "wgt_base", "acc_base", "a_base", "b_base", "o_base")
_NOT_SHAPE = frozenset((*_BASES, "param_base", "region", "fill_value", "index_base", "y0", "x0"))


def _mask(opcode: Opcode) -> int:
    """The bits of an instruction that belong to its shape."""
    places = 0
    for item in ROWS[opcode].items:
        if isinstance(item, Bits):
            places |= item.mask << item.shift if item.name in _NOT_SHAPE else 0
        elif item.name in ("wait", "post"):
            sem = item.fields[0]
            for i in range(item.count):
                places |= sem.mask << item.place(sem, i)
    return ~places


_MASKS = {opcode: _mask(opcode) for opcode in Opcode}


class InstructionShape:
    """An instruction without base addresses and semaphores, to be executed in chunks.

    v: the fields of the first instruction of this shape. level: an engine looks at semaphores
    between two iterations of loops 0 ... level-1. Deeper post slots fire when their chunk has been
    executed, as often as they would have within it. cache: what operators have computed; nothing
    in it may depend on base addresses or semaphores.
    """

    def __init__(self, instruction: Instruction, level: int) -> None:
        self.v: dict[str, Any] = instruction.values
        self.loops = self.v["loop"]
        self.level = level
        self.chunks = Chunks(self.loops, level)
        self.nest = Nest(self.loops, level, len(self.loops))
        self.cache: dict[object, Any] = {}
        self._groups: dict[int, dict[int, tuple[int, int]]] = {}
        self._slots = {"wait": instruction.waits, "post": instruction.posts}
        self._firing: dict[tuple[str, bool, int, bool], list[tuple[int, int]]] = {}

    def main_waits(self, chunk: int) -> list[tuple[int, int]]:
        """Which wait slots hold back the main sequencer before a chunk, each once."""
        return self.firing("wait", False, self.chunks.starts[chunk], chunk)

    def main_posts(self, chunk: int) -> list[tuple[int, int]]:
        """Which post slots fire after a chunk, those of the weight sequencer apart; how often."""
        return self.firing("post", False, self.chunks.ends[chunk], chunk)

    def firing(self, kind: str, weights: bool, level: int, chunk: int) -> list[tuple[int, int]]:
        """Slots of `level` and deeper, and how often each acts in a chunk."""
        key = (kind, weights, level, self.chunks.outer_last[chunk])
        if key not in self._firing:
            self._firing[key] = [
                (i, self._times(slot, key[3]))
                for i, slot in enumerate(self._slots[kind])
                if slot.level >= level and (slot.point is Point.WEIGHTS) is weights
            ]
        return self._firing[key]

    def groups(self, level: int) -> dict[int, tuple[int, int]]:
        """Chunks that begin one of `level`: which one of those, and where the next begins."""
        if level not in self._groups:
            begin = [i for i, start in enumerate(self.chunks.starts) if start <= level]
            following = [*begin[1:], self.chunks.size]
            numbered = enumerate(zip(begin, following, strict=True))
            self._groups[level] = {first: (i, after) for i, (first, after) in numbered}
        return self._groups[level]

    def _times(self, slot: Sync, outer_last: bool) -> int:
        if slot.level <= self.level:
            return 1
        return Nest(self.loops, self.level, slot.level).steps(outer_last).size


class InstructionShapes:
    """The shapes of one program.

    strict: chunks end wherever a slot acts. Otherwise only where one waits, or where the weight
    sequencer posts: there other engines may have to go on before this one can.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._known: dict[tuple[Opcode, int], list[InstructionShape]] = {}

    def of(self, instruction: Instruction, word: int) -> list[InstructionShape]:
        """The instruction's shape, then the same in larger chunks, the largest first.

        word: the encoded instruction.
        """
        key = (instruction.opcode, word & _MASKS[instruction.opcode])
        found = self._known.get(key)
        if found is None:
            levels = self._levels(instruction)
            found = self._known[key] = [InstructionShape(instruction, level) for level in levels]
        return found

    def _levels(self, instruction: Instruction) -> list[int]:
        slots = (*instruction.waits, *instruction.posts)
        if self._strict:
            return [max((s.level for s in slots), default=0)]
        # The weight sequencer has a pace of its own: chunks end wherever one of its slots acts.
        least = max((s.level for s in slots if s.point is Point.WEIGHTS), default=0)
        level = max((least, *(s.level for s in instruction.waits)))
        return [level, *range(least, level)]
