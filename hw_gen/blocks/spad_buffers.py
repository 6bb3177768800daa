"""What is written to the scratchpad waits here for its banks."""

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.choose import any_of, behind_first, chosen_of
from hw_gen.blocks.cut import ITEMS
from hw_gen.blocks.fifo import Fifo
from hw_gen.blocks.spad_request import locate_write, write_layout
from hw_gen.interfaces import spad_write
from hw_gen.platform import asks_for
from spec.config import NpuConfig

AGE_LIMIT = 7
"""Cycles after which a word that waits for its bank goes first."""


def word_layout(config: NpuConfig) -> data.StructLayout:
    """A word on its way to a bank, with the bytes of it that are written."""
    return data.StructLayout(
        {
            "row": range(config.bank_depth),
            "data": 8 * config.word_bytes,
            "lanes": config.word_bytes,
        }
    )


class WriteBuffers(wiring.Component):
    """A word of buffer for each bank, written when nobody else asks for the bank.

    A write that takes two busy banks needs them free at some time, not at the same time. Writes of
    the same word join in the buffer.

    Parameters
    ----------
    writes : number of clients. Of two that need one bank's buffer in one cycle, the first goes.

    Members
    -------
    write[j] : ``In(spad_write(config))``.
    busy : banks that somebody else takes.
    words, drains : the buffers, and those that their banks take now.
    stale : banks whose buffer has waited for `AGE_LIMIT` cycles: nobody else should ask for them.

    Timing: an access a cycle and client, in its bank two cycles after it was accepted at the
    earliest. On an FPGA it is two cycles later, all clients together have an access a cycle, and a
    buffer gets another word in the cycle after its bank took the one before.
    """

    def __init__(self, config: NpuConfig, *, writes: int):
        self._config = config
        super().__init__(
            {
                "write": In(spad_write(config)).array(writes),
                "busy": In(config.banks),
                "words": Out(word_layout(config)).array(config.banks),
                "drains": Out(config.banks),
                "stale": Out(config.banks),
            }
        )

    def elaborate(self, platform):
        m = Module()
        banks = self._config.banks
        full, left = Signal(banks), Signal(banks)
        m.d.comb += [self.drains.eq(full & ~self.busy), left.eq(full & ~self.drains)]
        fpga = asks_for(platform, "for_fpga")
        ready = Signal()
        if fpga:
            clients = self._in_turn(m, ready)
        else:
            clients = [self._request(m, j, port) for j, port in enumerate(self.write)]
        requests = [request for request, _ in clients]
        marked = [Signal(name=f"marked_{j}") for j in range(len(clients))]
        hits = [Signal(banks, name=f"hits_{j}") for j in range(len(clients))]
        if fpga:
            # It comes too late which banks take their words.
            taken = [self._one(m, requests, full, marked, hits, ready)]
        else:
            rows = [self._rows(m, str(j), r.payload) for j, r in enumerate(requests)]
            for j in range(len(clients)):
                self._accept(m, j, requests, rows[j], left, marked[j], hits[j])
            taken = list(zip((r.payload for r in requests), rows, hits, strict=True))
        for j, (port, (request, none)) in enumerate(zip(self.write, clients, strict=True)):
            self._land(m, j, port, request, none, hits[j], left, marked[j])
        m.d.sync += full.eq(left | any_of(hits))
        for b in range(banks):
            here = [(place, row[b], hit[b]) for place, row, hit in taken]
            self._word(m, b, here, left[b])
        return m

    def _in_turn(self, m: Module, ready: Signal) -> list[tuple]:
        """For an FPGA: writes wait in block RAM for each client, and one register has the next.

        So data are chosen once and not for each bank, ahead of the way to the banks. Returns what
        `_request` does, for each client. ready : the write in the register is taken.
        """
        layout = write_layout(self._config)
        queues = [Fifo(layout, depth=ITEMS) for _ in self.write]
        place, offered = Signal(layout, name="place", reset_less=True), Signal(len(queues))
        asks, moves = Cat(queue.o.valid for queue in queues), Signal()
        wins = asks & ~behind_first(asks)
        m.d.comb += moves.eq((offered == 0) | ready)
        with m.If(moves):
            m.d.sync += offered.eq(wins)
            # The last one's where nobody asks: no choice of nothing.
            m.d.sync += place.eq(queues[-1].o.payload)
            for queue in reversed(queues[:-1]):
                with m.If(queue.o.valid):
                    m.d.sync += place.eq(queue.o.payload)
        clients = []
        for j, (port, queue) in enumerate(zip(self.write, queues, strict=True)):
            m.submodules[f"request_{j}"] = queue
            locate_write(m, self._config, f"write_{j}", port, queue.i.payload)
            request = stream.Signature(layout).create(path=(f"request_{j}",))
            m.d.comb += [
                queue.i.valid.eq(port.valid),
                port.ready.eq(queue.i.ready),
                queue.o.ready.eq(moves & wins[j]),
                request.valid.eq(offered[j]),
                request.payload.eq(place),
                request.ready.eq(ready),
            ]
            clients.append((request, queue.empty & ~offered[j]))
        return clients

    def _one(
        self, m: Module, requests: list, full: Signal, marked: list, hits: list, ready: Signal
    ) -> tuple:
        """Takes the write that `_in_turn` offers. Returns its place, its rows, and the buffers that
        it goes to."""
        place = requests[0].payload
        rows, hit = self._rows(m, "one", place), Signal(self._config.banks, name="hits_one")
        waits = any_of(r.valid & mark for r, mark in zip(requests, marked, strict=True))
        m.d.comb += [
            ready.eq(((place.needs & full & ~self._joins(rows)) == 0) & ~(place.mark & waits)),
            hit.eq(Mux(any_of(r.valid for r in requests) & ready, place.needs, 0)),
        ]
        for request, hits_it in zip(requests, hits, strict=True):
            m.d.comb += hits_it.eq(Mux(request.valid, hit, 0))
        return place, rows, hit

    def _request(self, m: Module, j: int, port) -> tuple:
        """A register of a decoded write; returns the stream that leaves it, and that none waits."""
        layout = write_layout(self._config)
        request = stream.Signature(layout).create(path=(f"request_{j}",))
        place = Signal(layout, name=f"place_{j}")
        held = Signal(layout, name=f"held_{j}", reset_less=True)
        m.d.comb += request.payload.eq(held)
        locate_write(m, self._config, f"write_{j}", port, place)
        m.d.comb += port.ready.eq(~request.valid | request.ready)
        with m.If(port.ready):
            m.d.sync += request.valid.eq(port.valid)
            with m.If(port.valid):
                m.d.sync += held.eq(place)
        return request, ~request.valid

    def _rows(self, m: Module, j: str, place) -> list[Signal]:
        """For each bank the row that a write is for, if it needs the bank."""
        rows = []
        for b in range(self._config.banks):
            row = Signal(range(self._config.bank_depth), name=f"row_{j}_{b}")
            m.d.comb += row.eq(Mux(place.bank0 == b, place.row0, place.row1))
            rows.append(row)
        return rows

    def _joins(self, rows: list) -> Value:
        """Banks whose buffers hold a word of the same row."""
        return Cat(word.row == row for word, row in zip(self.words, rows, strict=True))

    def _accept(
        self,
        m: Module,
        j: int,
        requests: list,
        rows: list,
        full: Signal,
        marked: Signal,
        hits: Signal,
    ) -> None:
        """Takes a write whose buffers have room or hold the same words; `hits`: its buffers.

        Whether a client before it is taken is not waited for: that it asks is enough.
        """
        request, place = requests[j], requests[j].payload
        before = [Mux(r.valid, r.payload.needs, 0) for r in requests[:j]]
        m.d.comb += [
            # The marks of a client land one after the other.
            request.ready.eq(
                ((place.needs & any_of([full & ~self._joins(rows), *before])) == 0)
                & ~(place.mark & marked)
            ),
            hits.eq(Mux(request.valid & request.ready, place.needs, 0)),
        ]

    def _word(self, m: Module, b: int, taken: list, left: Value) -> None:
        """The buffer of bank `b`; `taken`: each client's place, its row and whether it hits."""
        config, word = self._config, self.words[b]
        row = Signal.like(word.row, name=f"row_{b}")
        lanes = Signal.like(word.lanes, name=f"lanes_{b}")
        bytes_ = Signal.like(word.data, name=f"bytes_{b}")
        age = Signal(range(AGE_LIMIT + 1), name=f"age_{b}")
        m.d.comb += [
            row.eq(_of_hit(taken, [at for _, at, _ in taken])),
            lanes.eq(
                any_of(
                    Mux(hit, Mux(place.bank0 == b, place.low, place.high), 0)
                    for place, _, hit in taken
                )
            ),
            bytes_.eq(_of_hit(taken, [place.data for place, *_ in taken])),
            self.stale[b].eq(age == AGE_LIMIT),
        ]
        with m.If(any_of(hit for _, _, hit in taken)):
            m.d.sync += [word.row.eq(row), word.lanes.eq(lanes | Mux(left, word.lanes, 0))]
        for k in range(config.word_bytes):
            with m.If(lanes[k]):
                m.d.sync += word.data.word_select(k, 8).eq(bytes_.word_select(k, 8))
        with m.If(~left):
            m.d.sync += age.eq(0)
        with m.Elif(~self.stale[b]):
            m.d.sync += age.eq(age + 1)

    def _land(
        self,
        m: Module,
        j: int,
        port,
        request,
        none: Value,
        hits: Signal,
        left: Signal,
        marked: Signal,
    ) -> None:
        """Which words have bytes of client `j`, and when those that a mark waits for are written:
        the words that are left when its write is accepted, and its own.
        """
        held, owed = Signal.like(left, name=f"held_{j}"), Signal.like(left, name=f"owed_{j}")
        m.d.comb += [
            port.landed.eq(marked & ((owed & left) == 0)),
            port.empty.eq((held == 0) & none),
        ]
        m.d.sync += held.eq((held & left) | hits)
        with m.If(request.valid & request.ready & request.payload.mark):
            m.d.sync += [marked.eq(1), owed.eq((held & left) | hits)]
        with m.Else():
            m.d.sync += [owed.eq(owed & left), marked.eq(marked & ~port.landed)]


def _of_hit(taken: list, values: list[Value]) -> Value:
    """The value of the client that hits; if no client does, any."""
    return values[0] if len(values) == 1 else chosen_of([hit for *_, hit in taken], values)
