"""Byte-addressed scratchpad over skewed single-port banks."""

from collections.abc import Sequence
from itertools import combinations, product

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect, flipped

from hw_gen.blocks.activity import with_idle_clock
from hw_gen.blocks.choose import any_of
from hw_gen.blocks.skid import Skid
from hw_gen.blocks.spad_buffers import WriteBuffers
from hw_gen.blocks.spad_request import locate, place_layout, rotate_bytes_left
from hw_gen.blocks.sram import Sram
from hw_gen.checks import check, checking
from hw_gen.interfaces import spad_read, spad_write
from hw_gen.platform import asks_for
from spec.banks import patience
from spec.config import NpuConfig


class Scratchpad(wiring.Component):
    """Unaligned vector reads and writes, each one cycle when its one or two banks are free.

    Successive words lie in different banks (`bank_of`), and no power-of-two pitch stays in one. A
    vector over two words takes two banks and a rotator.

    An access is decoded and goes to registers (reads have room for two, writes for one); from
    these alone it is decided who gets which banks. Writes go through `WriteBuffers`.

    Parameters
    ----------
    tags : of each client that reads, the shape of its tags. writes : number of clients that write.
        Priority of reads is the order read[0], read[1], …; a client that waited for banks for
        `patience` cycles goes before all others. A bank that a client asks for is given to none
        behind it, also when the client does not get its other bank.
    together : groups of clients, by number, that read side by side: a word that several of a group
        ask for in one cycle is read once, for all of them.
    lanes : clients, by number, that say in which lane byte 0 goes.
    ways : clients, by number, that share the way of their data on an FPGA: one of them is served in
        a cycle. To choose a word and to rotate it takes many tables. Others have a way each.

    Members
    -------
    read[i] : ``In(spad_read(config, tags[i], …))``; write[j] : ``In(spad_write(config))``.

    Timing: an access a cycle and client. Data come READ_LATENCY cycles after a read was accepted,
    and as much later as its banks were taken.
    """

    def __init__(
        self,
        config: NpuConfig,
        *,
        tags: Sequence,
        writes: int,
        together: Sequence[Sequence[int]] = (),
        lanes: Sequence[int] = (),
        ways: Sequence[Sequence[int]] = (),
    ):
        self._config = config
        self._ways = [tuple(sorted(way)) for way in ways]
        self._lanes = frozenset(lanes)
        self._together = [tuple(sorted(group)) for group in together]
        self._same: dict[tuple[int, int], Value] = {}
        super().__init__(
            {
                **{
                    f"read_{i}": In(spad_read(config, tag, lanes=i in self._lanes))
                    for i, tag in enumerate(tags)
                },
                "write": In(spad_write(config)).array(writes),
            }
        )
        self.read = [getattr(self, f"read_{i}") for i in range(len(tags))]

    def elaborate(self, platform):
        m = Module()
        buffers = WriteBuffers(self._config, writes=len(self.write))
        works = Cat(*(p.valid for p in self.write), *(~p.empty for p in buffers.write)).any()
        m.submodules.buffers = with_idle_clock(m, platform, buffers, works, "buffers", 4)
        for port, buffered in zip(self.write, buffers.write, strict=True):
            connect(m, flipped(port), buffered)
        requests = [self._read_request(m, i, port) for i, port in enumerate(self.read)]
        ways = self._ways if asks_for(platform, "for_fpga") else []
        self._arbitrate(m, requests, buffers, ways)
        self._check(m, platform, requests, buffers)
        banks = self._banks(m, requests, buffers)
        alone = set(range(len(requests))) - {i for way in ways for i in way}
        for way in [*ways, *((i,) for i in sorted(alone))]:
            self._answer(m, platform, way, requests, banks)
        return m

    def _read_request(self, m: Module, i: int, port):
        """Two entries of decoded reads; returns: the stream that leaves them. `turn`: lanes that
        bytes move down, where that is not by their offset."""
        turn = {"turn": range(self._config.word_bytes)} if i in self._lanes else {}
        layout = place_layout(self._config, tag=port.tag.shape(), **turn)
        m.submodules[f"reads_{i}"] = skid = Skid(layout)
        locate(m, self._config, f"read_{i}", port, skid.i.payload)
        m.d.comb += [
            skid.i.payload.tag.eq(port.tag),
            skid.i.valid.eq(port.valid),
            port.ready.eq(skid.i.ready),
        ]
        if turn:
            m.d.comb += skid.i.payload.turn.eq(skid.i.payload.offset - port.lane)
        return skid.o

    def _arbitrate(self, m: Module, requests: list, buffers: WriteBuffers, ways: list) -> None:
        """Grants: banks whose buffers are stale go to nobody but who is urgent."""
        n, banks = len(requests), self._config.banks
        urgent, old, reserved = Signal(n), Signal(n), Signal(banks)
        asks = [Mux(r.valid, r.payload.needs, 0) for r in requests]
        own = [Mux(urgent[i], asks[i], 0) for i in range(n)]
        self._same = {
            (j, i): self._same_words(m, f"{j}_{i}", requests[j].payload, requests[i].payload)
            for group in self._together
            for j, i in combinations(group, 2)
        }
        m.d.comb += [
            reserved.eq(any_of(own)),
            buffers.busy.eq(reserved | (any_of(asks) & ~buffers.stale)),
        ]
        last = patience(self._config.depthwise) - 1
        for i, request in enumerate(requests):
            age = Signal(range(last + 1), name=f"age_{i}")
            taken = Signal(banks, name=f"taken_{i}")
            free = (request.payload.needs & taken) == 0
            # Whoever shares its way goes before it also where its banks are others.
            for j in (j for way in ways if i in way for j in way if j != i):
                free &= ~(requests[j].valid if j < i else requests[j].valid & urgent[j])
            m.d.comb += [
                taken.eq(any_of([reserved, buffers.stale, *self._others(asks, i)])),
                request.ready.eq(urgent[i] | free),
                old[i].eq(request.valid & ~request.ready & (age == last)),
            ]
            with m.If(~request.valid | request.ready):
                m.d.sync += age.eq(0)
            with m.Elif(age != last):
                m.d.sync += age.eq(age + 1)
        m.d.sync += urgent.eq(old & (~old + 1)[:n])

    def _same_words(self, m: Module, name: str, one, other) -> Value:
        """Banks in which two accesses may lie in the same word; others than they need count not."""
        same = Signal(self._config.banks, name=f"same_{name}")
        words = [(p.bank0, p.row0, p.bank1, p.row1) for p in (one, other)]
        found = []
        for k, j in product((0, 2), repeat=2):
            (bank, row), (bank_other, row_other) = words[0][k : k + 2], words[1][j : j + 2]
            equal = (bank == bank_other) & (row == row_other)
            found.append(Mux(equal, (1 << bank)[: self._config.banks], 0))
        m.d.comb += same.eq(any_of(found))
        return same

    def _others(self, masks: Sequence[Value], i: int) -> list[Value]:
        """Those of the masks of banks of who goes before client `i` that hold banks from it."""
        same = self._same
        return [masks[j] & ~same[j, i] if (j, i) in same else masks[j] for j in range(i)]

    def _check(self, m: Module, platform, requests: list, buffers: WriteBuffers) -> None:
        if not checking(platform):
            return
        cfg = self._config
        for i, port in enumerate([*self.read, *self.write]):
            message = f"scratchpad: client {i} is out of range"
            check(m, platform, ~(port.valid & port.ready) | self._inside(port), message)
        won = [Signal(cfg.banks, name=f"won_{i}") for i in range(len(requests))]
        for i, request in enumerate(requests):
            m.d.comb += won[i].eq(Mux(request.valid & request.ready, request.payload.needs, 0))
            taken = any_of([buffers.drains, *self._others(won, i)])
            check(m, platform, (won[i] & taken) == 0, f"scratchpad: client {i} got a taken bank")

    def _inside(self, port) -> Value:
        cfg = self._config
        return (port.addr + port.size <= cfg.spad_bytes) & (port.size <= cfg.word_bytes)

    def _banks(self, m: Module, requests: list, buffers: WriteBuffers) -> list[Sram]:
        """The banks, each driven by the client that won it, or by its buffer."""
        cfg = self._config
        banks = []
        for b in range(cfg.banks):
            m.submodules[f"bank_{b}"] = bank = Sram(
                depth=cfg.bank_depth, width=8 * cfg.word_bytes, granularity=8
            )
            word, drains = buffers.words[b], buffers.drains[b]
            rows, read = [Mux(drains, word.row, 0)], []
            for i, request in enumerate(requests):
                place = request.payload
                wins = Signal(name=f"wins_{i}_{b}")
                m.d.comb += wins.eq(request.valid & request.ready & place.needs[b])
                rows.append(Mux(wins, Mux(place.bank0 == b, place.row0, place.row1), 0))
                read.append(wins)
            address = Signal(range(cfg.bank_depth), name=f"address_{b}")
            m.d.comb += [
                address.eq(any_of(rows)),
                bank.r_addr.eq(address),
                bank.w_addr.eq(address),
                bank.r_en.eq(any_of(read)),
                bank.w_data.eq(word.data),
                bank.w_en.eq(Mux(drains, word.lanes, 0)),
            ]
            banks.append(bank)
        return banks

    def _answer(
        self, m: Module, platform, way: Sequence[int], requests: list, banks: list[Sram]
    ) -> None:
        """Merge the two words a cycle after the grant, rotate, register: for clients of one way."""
        first, width = way[0], self._config.word_bytes
        places = [requests[i].payload for i in way]
        granted = [requests[i].valid & requests[i].ready for i in way]
        valid = [Signal(name=f"r_valid_{i}") for i in way]
        offset = Signal.like(places[0].offset, name=f"r_offset_{first}")
        b0, b1 = (Signal.like(places[0].bank0, name=f"r_b{k}_{first}") for k in (0, 1))
        wanted = {"offset": offset, "bank0": b0, "bank1": b1}
        turn = offset
        if not self._lanes.isdisjoint(way):
            wanted["turn"] = turn = Signal.like(offset, name=f"r_turn_{first}")
        m.d.sync += [is_valid.eq(one) for is_valid, one in zip(valid, granted, strict=True)]
        for one, place, i in zip(granted, places, way, strict=True):
            with m.If(one):
                for name, held in wanted.items():
                    own = "offset" if name == "turn" and i not in self._lanes else name
                    m.d.sync += held.eq(place[own])
        words = [bank.r_data for bank in banks]
        merge = self._merged if asks_for(platform, "loops") else self._rotated
        rotated = merge(m, first, (b0, b1), offset, turn, words)
        answer = Signal(8 * width, name=f"answer_{first}", reset_less=True)
        with m.If(any_of(valid)):
            m.d.sync += answer.eq(rotated)
        for i, one, is_valid in zip(way, granted, valid, strict=True):
            port = self.read[i]
            tag, answer_tag = Signal.like(port.tag), Signal.like(port.tag, name=f"answer_tag_{i}")
            m.d.sync += port.data_valid.eq(is_valid)
            m.d.comb += [port.data.eq(answer), port.data_tag.eq(answer_tag)]
            with m.If(one):
                m.d.sync += tag.eq(requests[i].payload.tag)
            with m.If(is_valid):
                m.d.sync += answer_tag.eq(tag)

    def _rotated(
        self, m: Module, i: int, pair: tuple, offset: Value, turn: Value, words: list
    ) -> Value:
        """Each byte from the bank that has it, then one rotation."""
        width = self._config.word_bytes
        word = Signal(8 * width, name=f"word_{i}")
        for lane in range(width):
            # The last byte is always of the first word.
            with m.Switch(Mux(offset <= lane, *pair) if lane < width - 1 else pair[0]):
                for b, each in enumerate(words):
                    with m.Case(b):
                        m.d.comb += word.word_select(lane, 8).eq(each.word_select(lane, 8))
        return (Cat(word, word) >> (turn << 3))[: 8 * width]

    def _merged(
        self, m: Module, i: int, pair: tuple, offset: Value, turn: Value, words: list
    ) -> Value:
        """The same for simulators: both words, then one shift."""
        width = self._config.word_bytes
        both = Signal(16 * width, name=f"words_{i}")
        for k, bank in enumerate(pair):
            with m.Switch(bank):
                for b, each in enumerate(words):
                    with m.Case(b):
                        m.d.comb += both.word_select(k, 8 * width).eq(each)
        value = (both >> (offset << 3))[: 8 * width]
        if turn is offset:
            return value
        lane = Signal.like(offset, name=f"lane_{i}")
        m.d.comb += lane.eq(offset - turn)
        return rotate_bytes_left(value, lane, width)
