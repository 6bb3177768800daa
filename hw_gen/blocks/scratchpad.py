"""Byte-addressed scratchpad over skewed single-port banks."""

from collections.abc import Sequence
from itertools import combinations, product

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In

from hw_gen.blocks.skid import Skid
from hw_gen.blocks.spad_request import locate, locate_write, place_layout, write_layout
from hw_gen.blocks.sram import Sram
from hw_gen.checks import check, checking
from hw_gen.interfaces import spad_read, spad_write
from hw_gen.platform import asks_for
from spec.config import NpuConfig

AGE_LIMIT = 8
"""Refused cycles after which a client, or a buffered write, goes first."""


class Scratchpad(wiring.Component):
    """Unaligned vector reads and writes, each one cycle when its one or two banks are free.

    Word w lies in bank (w + w/B + w/B²) mod B (`bank_of`): no power-of-two pitch stays in
    one. A vector over two words takes two banks and a rotator.

    An access is decoded and goes to registers (reads have room for two, writes for one); from
    these alone it is decided who gets which banks.

    Parameters
    ----------
    tags : of each client that reads, the shape of its tags. writes : number of clients that write.
        Priority is the order read[0], read[1], …, with write[0], … behind the first `leading` of
        them; a client that waited for banks for `AGE_LIMIT` cycles goes before all others. A bank
        that a client asks for is given to none behind it, also when the client does not get its
        other bank.
    together : groups of clients, by number, that read side by side: a word that several of a group
        ask for in one cycle is read once, for all of them.

    Members
    -------
    read[i] : ``In(spad_read(config, tags[i]))``; write[j] : ``In(spad_write(config))``.
    posted : ``In(spad_write(config))``. Each bank has a word of buffer for its writes, written
        when nobody else asks for the bank: a write that takes two busy banks needs them free at
        some time, not at the same time. Writes of the same word join in the buffer.

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
        leading: int | None = None,
    ):
        self._config = config
        self._together = [tuple(sorted(group)) for group in together]
        first = len(tags) if leading is None else leading
        self._order = [
            *range(first),
            *range(len(tags), len(tags) + writes),
            *range(first, len(tags)),
        ]
        self._same: dict[tuple[int, int], Value] = {}
        super().__init__(
            {
                **{f"read_{i}": In(spad_read(config, tag)) for i, tag in enumerate(tags)},
                "write": In(spad_write(config)).array(writes),
                "posted": In(spad_write(config)),
            }
        )
        self.read = [getattr(self, f"read_{i}") for i in range(len(tags))]

    def elaborate(self, platform):
        m = Module()
        requests = [self._read_request(m, str(i), port) for i, port in enumerate(self.read)]
        requests += [self._write_request(m, str(j), port) for j, port in enumerate(self.write)]
        stale = Signal(self._config.banks)
        asked, reserved = self._arbitrate(m, requests, stale)
        drains = self._buffers(m, reserved | (asked & ~stale), stale)
        for port, request in zip(self.write, requests[len(self.read) :], strict=True):
            m.d.comb += port.landed.eq(request.valid & request.ready & request.payload.mark)
        self._check(m, platform, requests, drains)
        banks = self._banks(m, requests, drains)
        for i, (port, request) in enumerate(zip(self.read, requests, strict=False)):
            self._answer(m, platform, i, port, request, banks)
        return m

    def _read_request(self, m: Module, i: str, port):
        """Two entries of decoded reads; returns: the stream that leaves them."""
        layout = place_layout(self._config, tag=port.tag.shape())
        m.submodules[f"reads_{i}"] = skid = Skid(layout)
        locate(m, self._config, f"read_{i}", port, skid.i.payload)
        m.d.comb += [
            skid.i.payload.tag.eq(port.tag),
            skid.i.valid.eq(port.valid),
            port.ready.eq(skid.i.ready),
        ]
        return skid.o

    def _write_request(self, m: Module, j: str, port):
        """A register of a decoded write; returns: the stream that leaves it."""
        layout = write_layout(self._config)
        request = stream.Signature(layout).create(path=(f"write_{j}",))
        place = Signal(layout, name=f"place_{j}")
        held = Signal(layout, name=f"held_{j}", reset_less=True)
        m.d.comb += request.payload.eq(held)
        locate_write(m, self._config, f"write_{j}", port, place)
        m.d.comb += [
            port.ready.eq(~request.valid | request.ready),
            port.empty.eq(~request.valid),
        ]
        with m.If(port.ready):
            m.d.sync += request.valid.eq(port.valid)
            with m.If(port.valid):
                m.d.sync += held.eq(place)
        return request

    def _arbitrate(self, m: Module, requests: list, stale: Signal) -> tuple[Signal, Signal]:
        """Grants; banks in `stale` go to nobody but who is urgent.

        Returns: the banks that are asked for; those of the client that is urgent.
        """
        n, banks = len(requests), self._config.banks
        urgent, old, reserved, asked = Signal(n), Signal(n), Signal(banks), Signal(banks)
        asks = [Mux(r.valid, r.payload.needs, 0) for r in requests]
        own = [Mux(urgent[i], asks[i], 0) for i in range(n)]
        self._same = {
            (j, i): self._same_words(m, f"{j}_{i}", requests[j].payload, requests[i].payload)
            for group in self._together
            for j, i in combinations(group, 2)
        }
        m.d.comb += [reserved.eq(_any(own)), asked.eq(_any(asks))]
        for i, request in enumerate(requests):
            age = Signal(range(AGE_LIMIT), name=f"age_{i}")
            taken = Signal(banks, name=f"taken_{i}")
            m.d.comb += [
                taken.eq(_any([reserved, stale, *self._others(asks, i)])),
                request.ready.eq(urgent[i] | ((request.payload.needs & taken) == 0)),
                old[i].eq(request.valid & ~request.ready & (age == AGE_LIMIT - 1)),
            ]
            with m.If(~request.valid | request.ready):
                m.d.sync += age.eq(0)
            with m.Elif(age != AGE_LIMIT - 1):
                m.d.sync += age.eq(age + 1)
        m.d.sync += urgent.eq(old & (~old + 1)[:n])
        return asked, reserved

    def _same_words(self, m: Module, name: str, one, other) -> Value:
        """Banks in which two accesses may lie in the same word; others than they need count not."""
        same = Signal(self._config.banks, name=f"same_{name}")
        words = [(p.bank0, p.row0, p.bank1, p.row1) for p in (one, other)]
        found = []
        for k, j in product((0, 2), repeat=2):
            (bank, row), (bank_other, row_other) = words[0][k : k + 2], words[1][j : j + 2]
            equal = (bank == bank_other) & (row == row_other)
            found.append(Mux(equal, (1 << bank)[: self._config.banks], 0))
        m.d.comb += same.eq(_any(found))
        return same

    def _others(self, masks: Sequence[Value], i: int) -> list[Value]:
        """Those of the masks of banks of who goes before client `i` that hold banks from it."""
        same, before = self._same, self._order[: self._order.index(i)]
        return [masks[j] & ~same[j, i] if (j, i) in same else masks[j] for j in before]

    def _buffers(self, m: Module, used: Value, stale: Signal) -> tuple[list[Signal], Signal]:
        """The posted writes' words, one per bank. Returns them and which are written now."""
        cfg, port = self._config, self.posted
        layout = data.StructLayout(
            {
                "row": range(cfg.bank_depth),
                "data": 8 * cfg.word_bytes,
                "lanes": cfg.word_bytes,
                "full": 1,
            }
        )
        request = self._write_request(m, "posted", port)
        place = request.payload
        buffers = [Signal(layout, name=f"buffer_{b}", reset_less=True) for b in range(cfg.banks)]
        full, drains, left = Signal(cfg.banks), Signal(cfg.banks), Signal(cfg.banks)
        owed, marked, accept = Signal(cfg.banks), Signal(), Signal()
        joins = Signal(cfg.banks)
        m.d.comb += [
            full.eq(Cat(buffer.full for buffer in buffers)),
            drains.eq(full & ~used),
            left.eq(full & ~drains),
            request.ready.eq(((place.needs & left & ~joins) == 0) & ~(place.mark & marked)),
            accept.eq(request.valid & request.ready),
            port.landed.eq(marked & ((owed & left) == 0)),
            port.empty.eq((full == 0) & ~request.valid),
        ]
        for b, buffer in enumerate(buffers):
            hit0, hit = place.bank0 == b, accept & place.needs[b]
            age = Signal(range(AGE_LIMIT + 1), name=f"buffer_age_{b}")
            row = Signal(range(cfg.bank_depth), name=f"posted_row_{b}")
            lanes = Signal(cfg.word_bytes, name=f"posted_lanes_{b}")
            m.d.comb += [
                stale[b].eq(age == AGE_LIMIT),
                row.eq(Mux(hit0, place.row0, place.row1)),
                lanes.eq(Mux(hit0, place.low, place.high)),
                joins[b].eq(buffer.row == row),
            ]
            with m.If(hit):
                m.d.sync += [
                    buffer.row.eq(row),
                    buffer.lanes.eq(lanes | Mux(left[b], buffer.lanes, 0)),
                    buffer.full.eq(1),
                ]
                for k in range(cfg.word_bytes):
                    with m.If(lanes[k]):
                        m.d.sync += buffer.data[8 * k : 8 * k + 8].eq(place.data[8 * k : 8 * k + 8])
            with m.Elif(drains[b]):
                m.d.sync += buffer.full.eq(0)
            with m.If(drains[b] | ~buffer.full):
                m.d.sync += age.eq(0)
            with m.Elif(~stale[b]):
                m.d.sync += age.eq(age + 1)
        # What a mark waits for: the words that are left when its write is accepted, and its own.
        with m.If(accept & place.mark):
            m.d.sync += [marked.eq(1), owed.eq(left | place.needs)]
        with m.Else():
            m.d.sync += [owed.eq(owed & left), marked.eq(marked & ~port.landed)]
        return buffers, drains

    def _check(self, m: Module, platform, requests: list, drains: tuple) -> None:
        if not checking(platform):
            return
        cfg = self._config
        for i, port in enumerate([*self.read, *self.write]):
            message = f"scratchpad: client {i} is out of range"
            check(m, platform, ~(port.valid & port.ready) | self._inside(port), message)
        message = "scratchpad: a posted write is out of range"
        port = self.posted
        check(m, platform, ~(port.valid & port.ready) | self._inside(port), message)
        won = [Signal(cfg.banks, name=f"won_{i}") for i in range(len(requests))]
        for i, request in enumerate(requests):
            m.d.comb += won[i].eq(Mux(request.valid & request.ready, request.payload.needs, 0))
            taken = _any([drains[1], *self._others(won, i)])
            check(m, platform, (won[i] & taken) == 0, f"scratchpad: client {i} got a taken bank")

    def _inside(self, port) -> Value:
        cfg = self._config
        return (port.addr + port.size <= cfg.spad_bytes) & (port.size <= cfg.word_bytes)

    def _banks(self, m: Module, requests: list, drains: tuple) -> list[Sram]:
        """The banks, each driven by the client that won it, or by its buffer."""
        cfg = self._config
        reads = len(self.read)
        buffers, drained = drains
        banks = []
        for b in range(cfg.banks):
            m.submodules[f"bank_{b}"] = bank = Sram(
                depth=cfg.bank_depth, width=8 * cfg.word_bytes, granularity=8
            )
            rows, words, lanes, read = [], [], [], []
            rows.append(Mux(drained[b], buffers[b].row, 0))
            words.append(Mux(drained[b], buffers[b].data, 0))
            lanes.append(Mux(drained[b], buffers[b].lanes, 0))
            for i, request in enumerate(requests):
                place = request.payload
                hit0 = place.bank0 == b
                wins = Signal(name=f"wins_{i}_{b}")
                m.d.comb += wins.eq(request.valid & request.ready & place.needs[b])
                rows.append(Mux(wins, Mux(hit0, place.row0, place.row1), 0))
                if i < reads:
                    read.append(wins)
                else:
                    words.append(Mux(wins, place.data, 0))
                    lanes.append(Mux(wins, Mux(hit0, place.low, place.high), 0))
            address = Signal(range(cfg.bank_depth), name=f"address_{b}")
            m.d.comb += [
                address.eq(_any(rows)),
                bank.r_addr.eq(address),
                bank.w_addr.eq(address),
                bank.r_en.eq(_any(read)),
                bank.w_data.eq(_any(words)),
                bank.w_en.eq(_any(lanes)),
            ]
            banks.append(bank)
        return banks

    def _answer(self, m: Module, platform, i: int, port, request, banks: list[Sram]) -> None:
        """Merge the two words a cycle after the grant, rotate, register."""
        width = self._config.word_bytes
        place = request.payload
        valid = Signal(name=f"r_valid_{i}")
        offset, tag = Signal.like(place.offset, name=f"r_offset_{i}"), Signal.like(port.tag)
        b0, b1 = (Signal.like(place.bank0, name=f"r_b{k}_{i}") for k in (0, 1))
        granted = request.valid & request.ready
        m.d.sync += valid.eq(granted)
        with m.If(granted):
            m.d.sync += [
                offset.eq(place.offset),
                b0.eq(place.bank0),
                b1.eq(place.bank1),
                tag.eq(place.tag),
            ]
        words = [bank.r_data for bank in banks]
        merge = self._merged if asks_for(platform, "loops") else self._rotated
        rotated = merge(m, i, (b0, b1), offset, words)
        m.d.sync += port.data_valid.eq(valid)
        answer = Signal(8 * width, name=f"answer_{i}", reset_less=True)
        answer_tag = Signal.like(port.tag, name=f"answer_tag_{i}", reset_less=True)
        m.d.comb += [port.data.eq(answer), port.data_tag.eq(answer_tag)]
        with m.If(valid):
            m.d.sync += [answer.eq(rotated), answer_tag.eq(tag)]

    def _rotated(self, m: Module, i: int, pair: tuple, offset: Value, words: list) -> Value:
        """Each byte from the bank that has it, then one rotation."""
        width = self._config.word_bytes
        word = Signal(8 * width, name=f"word_{i}")
        for lane in range(width):
            # The last byte is always of the first word.
            with m.Switch(Mux(offset <= lane, *pair) if lane < width - 1 else pair[0]):
                for b, each in enumerate(words):
                    with m.Case(b):
                        m.d.comb += word.word_select(lane, 8).eq(each.word_select(lane, 8))
        return (Cat(word, word) >> (offset << 3))[: 8 * width]

    def _merged(self, m: Module, i: int, pair: tuple, offset: Value, words: list) -> Value:
        """The same for simulators: both words, then one shift."""
        width = self._config.word_bytes
        both = Signal(16 * width, name=f"words_{i}")
        for k, bank in enumerate(pair):
            with m.Switch(bank):
                for b, each in enumerate(words):
                    with m.Case(b):
                        m.d.comb += both.word_select(k, 8 * width).eq(each)
        return (both >> (offset << 3))[: 8 * width]


def _any(values: list) -> Value:
    out: Value = Const(0)
    for value in values:
        out = out | value
    return out
