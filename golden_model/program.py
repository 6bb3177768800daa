"""A decoded program with everything about it that repeated runs can reuse."""

from functools import cached_property
from typing import Any

import numpy as np

from golden_model.clocks import Timeline, poster, waiter
from golden_model.instruction_shapes import InstructionShape, InstructionShapes
from spec.config import NpuConfig
from spec.isa import (
    GRANULE_BYTES,
    Engine,
    Instruction,
    IsaError,
    Opcode,
    Sync,
    disassemble,
)
from spec.repeat import run_order

Slots = list[tuple[Sync, int]]
"""Semaphore slots that act at one point, and how often each does."""


class Plan:
    """One instruction, to be executed in the chunks of its shape.

    coarser: the same instruction in larger chunks, the largest first, for `golden_model.merging`.
    """

    def __init__(self, instruction: Instruction, index: int, shape: InstructionShape) -> None:
        self.instruction = instruction
        self.index = index
        self.shape = shape
        self.engine: Engine = instruction.format.engine
        self.v: dict[str, Any] = instruction.values
        self.waits = instruction.waits
        self.posts = instruction.posts
        self.level, self.loops, self.cache = shape.level, shape.loops, shape.cache
        self.chunks, self.nest = shape.chunks, shape.nest
        self.coarser: list[Plan] = []

    def main_waits(self, chunk: int) -> Slots:
        """The slots that hold back the main sequencer before a chunk."""
        return [(self.waits[i], times) for i, times in self.shape.main_waits(chunk)]

    def main_posts(self, chunk: int) -> Slots:
        """The slots that fire after a chunk, those of the weight sequencer apart."""
        return [(self.posts[i], times) for i, times in self.shape.main_posts(chunk)]


class Program:
    """Instructions of an image in the order of execution; the first illegal one ends it with
    `error`.

    stored: memory regions that a STORE of the program writes to.
    """

    def __init__(self, code: bytes, config: NpuConfig) -> None:
        self.instructions: list[Instruction] = []
        self.error: IsaError | None = None
        self._code = code
        self._offsets: list[int] = []
        try:
            for offset, instruction in run_order(code, config):
                self._offsets.append(offset)
                self.instructions.append(instruction)
        except IsaError as error:
            self.error = error
        self.stored = {i["region"] for i in self.instructions if i.opcode is Opcode.STORE}

    def plans(self, check: bool) -> list[Plan | None]:
        """A plan for each instruction; None for those that fetch executes itself.

        check: the chunks are as small as semaphores can tell apart.
        """
        return self._strict if check else self._merged

    @cached_property
    def _strict(self) -> list[Plan | None]:
        return self._plans(InstructionShapes(strict=True))

    @cached_property
    def _merged(self) -> list[Plan | None]:
        return self._plans(InstructionShapes(strict=False))

    def _plans(self, shapes: InstructionShapes) -> list[Plan | None]:
        out: list[Plan | None] = []
        for index, instruction in enumerate(self.instructions):
            if instruction.format.engine is Engine.FETCH:
                out.append(None)
                continue
            size = instruction.format.granules * GRANULE_BYTES
            raw = self._code[self._offsets[index] : self._offsets[index] + size]
            shape, *larger = shapes.of(instruction, int.from_bytes(raw, "little"))
            plan = Plan(instruction, index, shape)
            plan.coarser = [Plan(instruction, index, other) for other in larger]
            out.append(plan)
        return out

    @cached_property
    def waiters(self) -> dict[int, set[Timeline]]:
        """Which sequencers wait for a semaphore."""
        found: dict[int, set[Timeline]] = {}
        for i in self.instructions:
            for s in i.waits:
                found.setdefault(s.sem, set()).add(waiter(i.format.engine, s.point))
        return found

    @cached_property
    def posters(self) -> dict[int, set[Timeline]]:
        """Which sequencers post to a semaphore."""
        found: dict[int, set[Timeline]] = {}
        for i in self.instructions:
            for s in i.posts:
                found.setdefault(s.sem, set()).add(poster(i.format.engine, s.point))
        return found

    def describe(self, index: int) -> str:
        return disassemble(self.instructions[index])


class Programs:
    """The last few programs of a machine, by their bytes."""

    def __init__(self, config: NpuConfig, keep: int = 4) -> None:
        self._config = config
        self._keep = keep
        self._cache: dict[bytes, Program] = {}

    def get(self, program: "np.typing.NDArray[np.uint8]") -> Program:
        code = program.tobytes()
        found = self._cache.pop(code, None) or Program(code, self._config)
        self._cache[code] = found
        while len(self._cache) > self._keep:
            del self._cache[next(iter(self._cache))]
        return found
