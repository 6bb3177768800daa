"""Walks an instruction's loop nest: addresses, waits, posts; one step a cycle, no bubbles."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw_gen.blocks.adders import fast_sum
from hw_gen.blocks.cut import Cut
from hw_gen.blocks.loop_counts import Nest, loop_counts
from hw_gen.blocks.loop_fields import LoopFields, LoopTables
from hw_gen.blocks.loop_starts import Steps, loop_starts
from hw_gen.layouts import (
    INDEX_BITS,
    PostEntryStream,
    WaitPort,
    engine_layout,
    field_shape,
    instruction_stream,
    loops_in_granules,
)
from hw_gen.platform import asks_for
from spec.isa import FORMATS, SYNC_SLOTS, Opcode, Point


class Sequencer(wiring.Component):
    """Takes instructions from a queue and offers the steps of their loop nests in order.

    The fields of the instruction stay where the queue has them, in its memory; registers are only
    the running values and what is left of each loop.

    Parameters
    ----------
    streams : name of a loop field -> name of its base field. Each becomes a running value
        ``o.payload.<name>`` = base + sum of index x stride, as wide as the base, without a sign.
    post_points : points for which it pushes post entries, in the order of ``post``.
    folds : walk only loops 0…fold_loops-1 (the weight sequencer).
    without : fields of the instruction that are not queued (see `engine_layout`).

    Members
    -------
    i : ``In(instruction_stream)``.
    o : ``Out(stream)`` of steps: the running values, ``at_last`` (bit l: loop l in its last
        iteration), ``at_first``, ``first`` / ``last`` (of the whole instruction),
        ``waits`` (the step has waits, met by now), ``fires`` (bit p: it completes an entry of
        post_points[p]).
    instr, index, active : the instruction that `o` belongs to.
    wait : port to the semaphores. waiting : held back by a semaphore. holds : on an FPGA, a step
        that was taken still needs its instruction.
    post[p] : entries of post_points[p], pushed in the cycle in which the step is accepted.

    Timing: a step a cycle; the first step of an instruction is offered in the cycle after the
    last one of its predecessor. A step with w waits takes at least 2w cycles. In RTL for FPGAs
    an instruction is taken once the steps of the one before are gone, and a step is offered some
    cycles later.
    """

    def __init__(
        self,
        opcode: Opcode,
        streams: dict[str, str],
        *,
        post_points: tuple[Point, ...] = (Point.DONE,),
        folds: bool = False,
        without: frozenset[str] = frozenset(),
    ):
        self._streams = streams
        self._post_points = post_points
        self._folds = folds
        self._loops = FORMATS[opcode].loops
        self._in_granules = loops_in_granules(opcode) is not None
        self._index = field_shape(opcode, "loop.count")
        self._widths = {
            name: FORMATS[opcode].field(base).bits for name, base in self._streams.items()
        }
        self.step_layout = data.StructLayout(
            {
                **self._widths,
                "at_first": self._loops,
                "at_last": self._loops,
                "first": 1,
                "last": 1,
                "waits": 1,
                "fires": len(post_points),
            }
        )
        super().__init__(
            {
                "i": In(instruction_stream(opcode, without)),
                "o": Out(stream.Signature(self.step_layout)),
                "instr": Out(engine_layout(opcode, without)),
                "index": Out(INDEX_BITS),
                "active": Out(1),
                "wait": Out(WaitPort),
                "waiting": Out(1),
                "holds": In(1),
                "post": Out(PostEntryStream).array(len(post_points)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        offered, behind = self._offered(m, platform)
        self._step = step = offered.payload
        accept, load, active = Signal(), Signal(), Signal()
        m.d.comb += [
            accept.eq(offered.valid & offered.ready),
            load.eq(self.i.valid & self.i.ready),
            self.active.eq(active | behind),
        ]
        if asks_for(platform, "for_fpga"):
            m.d.comb += self.i.ready.eq(~self.active)
        else:
            m.d.comb += self.i.ready.eq(~active | (accept & step.last))
        for name, _ in self.instr.shape():
            if name in self.i.rest.shape().members:
                m.d.comb += self.instr[name].eq(self.i.rest[name])
            else:
                held = Signal.like(self.i.start.instr[name], name=name, reset_less=True)
                m.d.comb += self.instr[name].eq(held)
                with m.If(load):
                    m.d.sync += held.eq(self.i.start.instr[name])
        # The slots that are used at all, and obeyed here.
        self._used = {
            name: Signal(SYNC_SLOTS, name=f"used_{name}", reset_less=True)
            for name in ("waits", "posts")
        }
        with m.If(load):
            m.d.sync += [self.index.eq(self.i.start.index), active.eq(1)]
            m.d.sync += [held.eq(self.i.start[name]) for name, held in self._used.items()]
        with m.Elif(accept & step.last):
            m.d.sync += active.eq(0)

        nest = Nest(
            loops=self._loops,
            index=self._index,
            fields=self._fields(m, platform, load),
            folded=(self._folded(self.i.start.instr), self._folded(self.instr)),
            at_first=step.at_first,
            at_last=step.at_last,
            accept=accept,
            load=load,
        )
        first_from, last_from, next_first_from = loop_counts(m, platform, nest)
        self._addresses(m, platform, nest, active, last_from)
        waits_met, asks = self._waits(m, platform, accept, load, next_first_from)
        posts_ready = self._posts(m, accept, last_from)
        m.d.comb += [
            step.first.eq(first_from[0]),
            step.last.eq(last_from[0]),
            self.wait.valid.eq(active & asks),
            offered.valid.eq(active & waits_met & posts_ready),
            self.waiting.eq(active & ~waits_met & ~behind),
        ]
        return m

    def _offered(self, m: Module, platform):
        """Where steps are offered, and whether one that was taken there has not left.

        The way from what takes the steps is long. On an FPGA it ends at a `Cut`, and what follows
        from a step's flags is known a cycle before its running values.
        """
        # On an FPGA the step behind a register of the flags; whether that takes flags; and whether
        # the step leaves it.
        self._later = None
        if not asks_for(platform, "for_fpga"):
            return self.o, Const(0, 1)
        m.submodules.ahead = ahead = Cut(self.step_layout)
        connect(m, ahead.o, flipped(self.o))
        offered = stream.Signature(self.step_layout).create(path=("flags",))
        flags, valid, leaves = Signal(self.step_layout, reset_less=True), Signal(), Signal()
        m.d.comb += [
            offered.ready.eq(~valid | ahead.i.ready),
            leaves.eq(valid & ahead.i.ready),
            ahead.i.valid.eq(valid),
        ]
        with m.If(offered.ready):
            m.d.sync += [valid.eq(offered.valid), flags.eq(offered.payload)]
        for name, _ in self.step_layout:
            if name not in self._streams:
                m.d.comb += ahead.i.payload[name].eq(flags[name])
        self._later = ahead.i.payload, offered.ready, leaves
        return offered, valid | ~ahead.empty | self.holds

    def _fields(self, m: Module, platform, load: Value) -> LoopFields | LoopTables:
        """Where counts and strides of loops are found."""
        if asks_for(platform, "for_fpga") and self._in_granules:
            return LoopTables(m, self.i.entries, self.instr, load)
        return LoopFields(self.i.start.instr, self.instr)

    def _folded(self, instr) -> Value:
        """A bit for each loop: it is not walked."""
        if not self._folds:
            return Const(0, self._loops)
        return Cat(instr.fold_loops <= level for level in range(self._loops))

    def _addresses(self, m: Module, platform, nest: Nest, active: Value, last_from: Value) -> None:
        """Running values: the innermost loop that goes on adds its stride to its own start."""
        n, step, accept, fields = self._loops, self._step, nest.accept, nest.fields
        goes_on: Value = Cat(last_from[level + 1] & ~step.at_last[level] for level in range(n))
        restarts = last_from[1:]
        if self._later:
            step, moves, accept = self._later
            flags = Signal(2 * n, reset_less=True)
            with m.If(moves):
                m.d.sync += flags.eq(Mux(active, Cat(goes_on, restarts), 0))
            goes_on, restarts = flags[:n], flags[n:]
        # On an FPGA no loop goes on where an instruction begins: the first value is added to 0.
        summed = self._later is not None
        steps = Steps(goes_on=goes_on, restarts=restarts, accept=accept, load=nest.load)
        starts = loop_starts(m, platform, steps)
        for name, base in self._streams.items():
            width = self._widths[name]
            origin, stride = Signal(width, name=f"{name}_from"), Signal(width, name=f"{name}_by")
            now, start = starts.add(name, width)
            first = self.i.start.instr[base]
            m.d.comb += [
                getattr(step, name).eq(now),
                origin.eq(start),
                stride.eq(
                    fields.stride(name, goes_on) | (Mux(nest.load, first, 0) if summed else 0)
                ),
            ]
            value = fast_sum(m, platform, f"{name}_next", origin, stride)
            starts.follow(name, first, value)

    def _reach(self, level: Value, flags: Value) -> Value:
        return flags.bit_select(level, 1)

    def _waits(self, m: Module, platform, accept: Value, load: Value, next_first_from: Value):
        """One slot a cycle is put to the semaphores; returns: every due wait is met, one is not."""
        mine, reached = self._used["waits"], Signal(SYNC_SLOTS)
        due, chosen = Signal(SYNC_SLOTS), Signal(SYNC_SLOTS)
        for s, slot in enumerate(self.instr.wait):
            m.d.comb += reached[s].eq(self._reach(slot.level, next_first_from))
        for s, slot in reversed(list(enumerate(self.instr.wait))):
            asked = [self.wait.sem.eq(slot.sem), self.wait.amount.eq(slot.amount)]
            # What is asked for while no slot is due does not count.
            with m.If(due[s] | (s == SYNC_SLOTS - 1)):
                m.d.comb += asked
            with m.If(due[s]):
                m.d.comb += chosen.eq(1 << s)
        granted = Mux(self.wait.grant, chosen, 0)
        if asks_for(platform, "for_fpga"):
            return self._due_later(m, accept, load, mine, reached, due, granted)
        return self._due(m, accept, load, mine, reached, due, granted)

    def _due(self, m: Module, accept, load, mine, reached, due, granted):
        """Which waits are `due`. Which slots a step reaches is known when it begins: the way to the
        semaphores is long.
        """
        reaches, met = Signal(SYNC_SLOTS, reset_less=True), Signal(SYNC_SLOTS)
        slots = Signal(SYNC_SLOTS)
        m.d.comb += [
            slots.eq(mine & reaches),
            due.eq(slots & ~met),
            self._step.waits.eq(slots.any()),
        ]
        with m.If(load):
            m.d.sync += reaches.eq(~0)
        with m.Elif(accept):
            m.d.sync += reaches.eq(reached)
        with m.If(accept):
            m.d.sync += met.eq(0)
        with m.Elif(self.wait.grant):
            m.d.sync += met.eq(met | granted)
        return (due & ~granted) == 0, due.any()

    def _due_later(self, m: Module, accept, load, mine, reached, due, granted):
        """As `_due`, from registers: a cycle later, at the first step of an instruction too."""
        new, left = Signal(), Signal(SYNC_SLOTS, reset_less=True)
        waits, slots = Signal(reset_less=True), Signal(SYNC_SLOTS)
        m.d.comb += [
            slots.eq(mine & Mux(new, ~0, reached)),
            due.eq(left),
            self._step.waits.eq(waits),
        ]
        m.d.sync += new.eq(load)
        with m.If(load):
            m.d.sync += left.eq(0)
        with m.Elif(new | accept):
            m.d.sync += [left.eq(slots), waits.eq(slots.any())]
        with m.Else():
            m.d.sync += left.eq(left & ~granted)
        return ~new & (left == 0), left.any()

    def _posts(self, m: Module, accept: Value, last_from: Value) -> Value:
        """Push the entries that the step completes; returns: every queue has room."""
        ready = Const(1, 1)
        for p, point in enumerate(self._post_points):
            entry = self.post[p].payload
            m.d.comb += [entry.posts.index.eq(self.index), entry.last.eq(last_from[0])]
            for s in range(SYNC_SLOTS):
                slot = self.instr.post[s]
                fires = self._used["posts"][s] & (slot.point == point)
                m.d.comb += [
                    entry.enable[s].eq(fires & self._reach(slot.level, last_from)),
                    entry.posts.slots[s].sem.eq(slot.sem),
                    entry.posts.slots[s].amount.eq(slot.amount),
                ]
            any_fires = entry.enable.any()
            m.d.comb += [
                self._step.fires[p].eq(any_fires),
                self.post[p].valid.eq(accept & any_fires),
            ]
            ready = ready & self.post[p].ready
        return ready
