"""Virtual instructions of a traced kernel, statement by statement, with the bytes of each."""

import itertools
import math

from spec.isa import Reduce, Space
from sw.compiler.kernels.context import EmitContext
from sw.compiler.kernels.dma import Box, Copy, copies, load_box
from sw.compiler.kernels.emitter import LayerEmitter
from sw.compiler.kernels.functions import lacked
from sw.compiler.kernels.params import pack_params
from sw.compiler.program.records import Load, Record, Store
from sw.compiler.program.virtual import Access, Buffer, Place, VirtualInstruction
from sw.language.emit.issue import Issue, Places
from sw.language.emit.products import depthwise_issues, dot_issue
from sw.language.emit.vectors import vector_issue
from sw.language.errors import ApartError
from sw.language.layout import Layout
from sw.language.placement import Placement, Site
from sw.language.steps import CopyStep, DepthwiseStep, DotStep, Step, VectorStep
from sw.language.trace import Trace
from sw.language.types import item_bytes

PARTS, MIN_SLICED = 4, 32
"""A result of so many rows or more is stored in parts, each as soon as VECTOR has written it."""

Origins = dict[VirtualInstruction, Step]
"""The statement that each instruction is part of."""


class KernelEmitter(LayerEmitter):
    """Appends the instructions of a trace to the program; `origins` notes whose each is."""

    def __init__(
        self, trace: Trace, placement: Placement, context: EmitContext, origins: Origins
    ) -> None:
        super().__init__(trace.name, context)
        self.trace, self.origins = trace, origins
        hand = placement.by_hand[Place.SPAD]
        self.places = Places(
            placement=placement,
            context=context,
            rings=[self._ring(site) for site in placement.sites[Place.SPAD]],
            by_hand=self.slots("placed by hand, ", Place.SPAD, 1, hand).buffers[0]
            if hand
            else None,
        )
        self._params: dict[bytes, Buffer] = {}
        self._stored = _stored_at_once(trace)

    def _ring(self, site: Site) -> list[Buffer]:
        # The name of what one line makes in turns: of a tensor, without the piece.
        label = site.memories[0].label.partition("[")[0]
        what = f"{label} of {site.line.short}, buffer "
        return self.slots(what, Place.SPAD, site.slots, site.size).buffers

    def run(self) -> None:
        """Emit everything, in the order of the source."""
        for step in self.trace.steps:
            before = len(self.context.virtual.instructions)
            try:
                self._emit(step)
            except ApartError as error:
                raise self.trace.error(
                    f"{step.label}: {error} do not lie one after another",
                    step.line,
                    hint="keep() makes a tile whose elements are neighbours",
                ) from None
            made = self.context.virtual.instructions[before:]
            for instruction in made:
                self._check(instruction.record, step)
            self.origins.update(dict.fromkeys(made, step))

    def _emit(self, step: Step) -> None:
        parts = self._parts_of(step)
        match step:
            case CopyStep():
                self._copy(step, parts)
            case DotStep():
                self._issue(step, dot_issue(step, self.places))
            case DepthwiseStep():
                for issue in depthwise_issues(step, self.places):
                    self._issue(step, issue)
            case VectorStep():
                if step.pending.table is not None:
                    self.load_table_bytes(step.pending.table.tobytes())
                params = self._load_params(step)
                self._issue(step, vector_issue(step, self.places, params, parts))

    def _issue(self, step: Step, issue: Issue) -> None:
        self.append(issue.record, issue.bases, issue.accesses, str(step))

    def _check(self, record: Record, step: Step) -> None:
        function = lacked(record, self.config)
        if function is not None:
            raise self.trace.error(
                f"{step.label}: needs {function.what}; configuration {self.config.name} has "
                f"{function.flag}=False",
                step.line,
                hint=f"choose a configuration that has it (--set {function.flag}=true)",
            )

    def _parts_of(self, step: Step) -> int:
        """Parts in which a statement passes its rows to the next one, or takes them."""
        if step not in self._stored:
            return 1
        piece = step.pieces[-1]
        rows = piece.shape[0]
        one_block = 1 < piece.shape[-1] <= self.config.cols
        dense = piece.layout == Layout.dense(piece.shape, item_bytes(piece.dtype))
        if not one_block or not dense or rows % PARTS:
            return 1
        return PARTS if rows * math.prod(piece.shape[1:-1]) >= MIN_SLICED else 1

    def _copy(self, step: CopyStep, parts: int) -> None:
        tensor, item = self.context.tensors[step.tensor], item_bytes(step.chip.dtype)
        chip, base = self.places.of(step.chip.memory)
        base += step.chip.layout.offset
        outside, inside = step.outside.whole_strides, step.chip.layout.whole_strides
        box = list(zip(step.outside.shape, outside, inside, strict=True))
        if parts > 1:
            found = [_in_parts(box, item, parts)]
        else:
            found = list(copies(box, item))
        for copy in found:
            mem = [step.outside.offset + at for at in copy.memory_span()]
            start, stop = (base + at for at in copy.chip_span())
            far = Access(buffer=tensor, start=mem[0], stop=mem[1], write=step.stores)
            near = Access(buffer=chip, start=start, stop=stop, write=not step.stores)
            kind = Store if step.stores else Load
            record = kind(
                mem_base=step.outside.offset + copy.mem,
                chip_base=base + copy.chip,
                run=copy.run,
                loop=copy.loops,
            )
            bases = {"mem_base": tensor, "chip_base": chip}
            accesses = [far, *self.places.in_parts(near, parts, 1)]
            self.append(record, bases, accesses, str(step))

    def _load_params(self, step: VectorStep) -> Buffer | None:
        """The parameter entries of a statement, loaded where they are not there yet."""
        channels = step.pending.channels
        if channels is None:
            return None
        columns = step.pending.extents[-1] if step.pending.by_column else self.config.cols
        data = pack_params([channels], 0, columns, self.config)
        if data not in self._params:
            entries = len(data) // self.config.param_entry_bytes
            taken = sum(buffer.size for buffer in self._params.values())
            if taken + entries > self.config.param_entries:
                raise self.trace.error(
                    f"scales and biases of columns take {taken + entries} parameter entries, "
                    f"configuration {self.config.name} has {self.config.param_entries}",
                    step.line,
                    hint="use one scale for all columns, or fewer columns a kernel",
                )
            slot = self.slots(f"params{len(self._params)}_", Place.PARAM, 1, entries).buffers[0]
            self.load_constant(data, Space.PARAM, slot, entries, f"params ({step.line.short})")
            self._params[data] = slot
        return self._params[data]


def _stored_at_once(trace: Trace) -> frozenset[Step]:
    """The statements that write a result, and those that store it next."""
    found = set[Step]()
    for step, after in itertools.pairwise(trace.steps):
        stores = isinstance(after, CopyStep) and after.stores
        if isinstance(step, VectorStep) and stores and step.out is after.pieces[-1]:
            # Results of a reduction come when it ends, and not row by row.
            found |= {step, after} if step.pending.reduce is Reduce.NONE else set()
    return frozenset(found)


def _in_parts(box: Box, item: int, parts: int) -> Copy:
    """The copy of a box of which loop 0 goes through equal parts of the first dimension."""
    (count, mem, chip), *inner = box
    size = count // parts
    dims = [(parts, size * mem, size * chip), (size, mem, chip), *inner]
    run, loops = load_box(dims, item, keep_outer=True)
    return Copy(mem=0, chip=0, run=run, loops=loops)
