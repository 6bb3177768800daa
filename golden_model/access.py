"""Bounds and hazard checks in front of every access to a memory."""

from collections.abc import Sequence

import numpy as np

from golden_model.clocks import Clocks, Timeline
from golden_model.errors import MachineFault
from golden_model.hazards import Hazards, Shadow, Span
from golden_model.loops import Ints
from golden_model.program import Program
from golden_model.regions import Region, region_at
from golden_model.semaphores import Semaphores
from golden_model.state import State
from spec.isa import REGIONS
from spec.memmap import Fault
from spec.program import REGION_CONST, REGION_INPUT


class Context:
    """What the engines of one run share: the state, the semaphores, and the checks.

    indices: the index of LOAD's and of STORE's iteration of loop 0, by their issue timelines.
    """

    def __init__(self, state: State, program: Program, check: bool) -> None:
        self.state = state
        self.program = program
        self.config = state.config
        self.indices: dict[Timeline, int] = {}
        self.clocks = Clocks() if check else None
        self.semaphores = Semaphores(state.config, self.clocks)
        self.hazards: Hazards | None = None
        if self.clocks is not None:
            self.hazards = Hazards(self.clocks, program.describe)
            self.semaphores.shared = frozenset(s for s, p in program.posters.items() if len(p) > 1)
            self._shadows()

    def _shadows(self) -> None:
        config = self.config
        self.spad = Shadow("spad", config.spad_bytes)
        self.acc = Shadow("acc", config.acc_vectors)
        self.param = Shadow("param", config.param_bytes)
        self.table = Shadow("table", config.table_bytes)
        self.memory: list[Shadow | None] = [None] * REGIONS
        for region in range(REGIONS):
            given = region in (REGION_CONST, REGION_INPUT)
            # Nothing can go wrong in a region that holds data and is never stored to.
            if not given or region in self.program.stored:
                size = self.state.memory[region].size
                self.memory[region] = Shadow(f"memory region {region} byte", size, given)

    # Accesses that are known to be within bounds: each raises HazardError, or returns nothing ---

    def reads(self, space: str, region: Region, base: int, timeline: Timeline, index: int) -> None:
        """`timeline` is about to read a region of an on-chip space."""
        if self.hazards is not None:
            self.hazards.read(getattr(self, space), region, base, timeline, index)

    def writes(self, space: str, region: Region, base: int, timeline: Timeline, index: int) -> None:
        if self.hazards is not None:
            self.hazards.write(getattr(self, space), region, base, timeline, index)

    def sums(self, region: Region, base: int, fresh: bool, timeline: Timeline, index: int) -> None:
        """`timeline` writes, or (not `fresh`) adds to, accumulator vectors."""
        if self.hazards is not None:
            if not fresh:
                self.hazards.accumulate(self.acc, region, base, timeline, index)
            self.hazards.write(self.acc, region, base, timeline, index)

    def memory_reads(self, number: int, region: Region, base: int, index: int) -> None:
        if self.hazards is not None and (shadow := self.memory[number]) is not None:
            self.hazards.read(shadow, region, base, Timeline.LOAD_ISSUE, index)

    def memory_writes(self, number: int, region: Region, base: int, index: int) -> None:
        if self.hazards is not None and (shadow := self.memory[number]) is not None:
            self.hazards.write(shadow, region, base, Timeline.STORE_DONE, index)

    # Accesses to any addresses: each raises MachineFault or HazardError, or returns nothing -----

    def read(self, space: str, address: Ints, run: int, timeline: Timeline, index: int) -> None:
        """`timeline` is about to read `run` units at each address of `space`."""
        self.bounds(space, address, run, timeline, index)
        if self.hazards is not None:
            shadow: Shadow = getattr(self, space)
            self.hazards.read(shadow, region_at(address, run), 0, timeline, index)

    def read_late(self, space: str, address: Ints, run: int, index: int) -> None:
        """VECTOR reads parameters or table: after its A and B, and READ does not tell when."""
        self.reads_done(Timeline.VECTOR_ISSUE, Timeline.VECTOR_DONE)
        self.read(space, address, run, Timeline.VECTOR_DONE, index)

    def write(self, space: str, address: Ints, run: int, timeline: Timeline, index: int) -> None:
        self.bounds(space, address, run, timeline, index)
        if self.hazards is not None:
            shadow: Shadow = getattr(self, space)
            self.hazards.write(shadow, region_at(address, run), 0, timeline, index)

    def in_place(
        self, reads: Sequence[Span], writes: Sequence[Span], timeline: Timeline, index: int
    ) -> None:
        """Check the steps of one chunk against each other; all `writes` are of one space."""
        space = writes[0].space
        same = [s for s in reads if s.space == space and s.address.size]
        if self.hazards is not None and same:
            self.hazards.in_place(getattr(self, space), same, writes, timeline, index)

    def memory_read(self, region: int, address: Ints, run: int, index: int) -> None:
        self.memory_bounds(region, address, run, Timeline.LOAD_ISSUE, index)
        if self.hazards is not None and (shadow := self.memory[region]) is not None:
            touched = region_at(address, run)
            self.hazards.read(shadow, touched, 0, Timeline.LOAD_ISSUE, index)

    def memory_write(self, region: int, address: Ints, run: int, index: int) -> None:
        self.memory_bounds(region, address, run, Timeline.STORE_DONE, index)
        if self.hazards is not None and (shadow := self.memory[region]) is not None:
            touched = region_at(address, run)
            self.hazards.write(shadow, touched, 0, Timeline.STORE_DONE, index)

    def accumulator(self, vectors: Ints, fresh: bool, timeline: Timeline, index: int) -> None:
        """`timeline` writes, or (not `fresh`) adds to, the accumulator's `vectors`."""
        self.bounds("acc", vectors, 1, timeline, index)
        if self.hazards is not None:
            touched = region_at(vectors, 1)
            if not fresh:
                self.hazards.accumulate(self.acc, touched, 0, timeline, index)
            self.hazards.write(self.acc, touched, 0, timeline, index)

    def reads_done(self, issue: Timeline, done: Timeline) -> None:
        """The writes of a chunk come after its reads; later reads are not among them."""
        if self.clocks is not None:
            self.clocks.learn(done, self.clocks.publish(issue))

    def _size(self, space: str) -> int:
        return {
            "spad": self.config.spad_bytes,
            "acc": self.config.acc_vectors,
            "param": self.config.param_bytes,
            "table": self.config.table_bytes,
        }[space]

    def bounds(self, space: str, address: Ints, run: int, timeline: Timeline, index: int) -> None:
        size = self._size(space)
        if address.size and int(address.max()) + run > size:
            bad = int(address[np.argmax(address + run > size)])
            raise MachineFault(
                Fault.CHIP_ADDRESS,
                timeline.engine,
                index,
                f"{space} {bad}…{bad + run - 1} lies outside 0…{size - 1}: "
                f"`{self.program.describe(index)}`",
            )

    def memory_bounds(
        self, region: int, address: Ints, run: int, timeline: Timeline, index: int
    ) -> None:
        size = self.state.memory[region].size
        if address.size and int(address.max()) + run > size:
            bad = int(address[np.argmax(address + run > size)])
            raise MachineFault(
                Fault.OUTSIDE_REGION,
                timeline.engine,
                index,
                f"region {region} bytes {bad}…{bad + run - 1} lie outside its {size} bytes: "
                f"`{self.program.describe(index)}`",
                region=region,
                offset=bad,
            )
