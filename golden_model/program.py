"""A decoded program with everything about it that repeated runs can reuse."""

from typing import Any

import numpy as np

from golden_model.clocks import Timeline, poster, waiter
from golden_model.loops import Chunks, Nest
from spec.config import NpuConfig
from spec.isa import (
    GRANULE_BYTES,
    Engine,
    Instruction,
    IsaError,
    Opcode,
    Point,
    Sync,
    decode,
    disassemble,
)
from spec.legality import check_instruction


class Plan:
    """One instruction: its slots, its chunks, and caches of its operators.

    level: the deepest loop level that a slot names; between two iterations of it the engine
    executes without looking at semaphores.
    """

    def __init__(self, instruction: Instruction, index: int) -> None:
        self.instruction = instruction
        self.index = index
        self.engine: Engine = instruction.format.engine
        self.v: dict[str, Any] = instruction.values
        self.waits = instruction.waits
        self.posts = instruction.posts
        self.level = max((s.level for s in (*self.waits, *self.posts)), default=0)
        loops = self.v["loop"]
        self.loops = loops
        self.chunks = Chunks(loops, self.level)
        self.nest = Nest(loops, self.level, len(loops))
        self.cache: dict[str, object] = {}

    def main_waits(self, chunk: int) -> list[Sync]:
        start = self.chunks.starts[chunk]
        return [s for s in self.waits if s.level >= start and s.point is not Point.WEIGHTS]

    def main_posts(self, chunk: int) -> list[Sync]:
        end = self.chunks.ends[chunk]
        return [s for s in self.posts if s.level >= end and s.point is not Point.WEIGHTS]


class Program:
    """Instructions of an image in order; the first illegal one ends it with `error`.

    stored: memory regions that a STORE of the program writes to.
    """

    def __init__(self, code: bytes, config: NpuConfig) -> None:
        self.instructions: list[Instruction] = []
        self.plans: list[Plan | None] = []
        self.error: IsaError | None = None
        offset = 0
        while True:
            try:
                instruction = decode(code, offset)
                check_instruction(instruction, config)
            except IsaError as error:
                self.error = error
                break
            self._append(instruction)
            offset += instruction.format.granules * GRANULE_BYTES
            if instruction.opcode is Opcode.END:
                break
        self.stored = {i["region"] for i in self.instructions if i.opcode is Opcode.STORE}
        self.waiters, self.posters = self._semaphore_users()

    def _append(self, instruction: Instruction) -> None:
        index = len(self.instructions)
        self.instructions.append(instruction)
        on_engine = instruction.format.engine is not Engine.FETCH
        self.plans.append(Plan(instruction, index) if on_engine else None)

    def _semaphore_users(self) -> tuple[dict[int, set[Timeline]], dict[int, set[Timeline]]]:
        waiters: dict[int, set[Timeline]] = {}
        posters: dict[int, set[Timeline]] = {}
        for plan in self.plans:
            if plan is not None:
                for s in plan.waits:
                    waiters.setdefault(s.sem, set()).add(waiter(plan.engine, s.point))
                for s in plan.posts:
                    posters.setdefault(s.sem, set()).add(poster(plan.engine, s.point))
        return waiters, posters

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
