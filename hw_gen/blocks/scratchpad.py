"""Byte-addressed scratchpad over skewed single-port banks."""

from amaranth.hdl import *
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from hw_gen.blocks.sram import Sram
from hw_gen.checks import check, checking
from hw_gen.interfaces import spad_posted, spad_read, spad_write
from spec.config import NpuConfig

AGE_LIMIT = 8
"""Refused cycles after which a client, or a buffered write, goes first."""


def rotate_bytes_left(value: Value, count: Value, width: int) -> Value:
    """`value` (`width` bytes) rotated towards higher bytes by `count`."""
    wide = Cat(value, value) << (count << 3)
    return wide[8 * width : 16 * width]


def bank_of(word: Value, banks: int) -> Value:
    """The bank of a word. The compiler has the same (`NpuConfig.bank_of`), tests compare both."""
    bits = (banks - 1).bit_length()
    return (word[:bits] + word[bits : 2 * bits] + word[2 * bits : 3 * bits])[:bits]


class Scratchpad(wiring.Component):
    """Unaligned vector reads and writes, each one cycle when its one or two banks are free.

    Word w lies in bank (w + w/B + w/B²) mod B (`bank_of`): no power-of-two pitch stays in
    one. A vector over two words takes two banks and a rotator.

    Parameters
    ----------
    reads, writes : number of clients. Priority is the order read[0], read[1], …, write[0], …; a
        client refused `AGE_LIMIT` cycles in a row goes before all others.

    Members
    -------
    read[i] : ``In(spad_read(config))``; write[j] : ``In(spad_write(config))``. `ready` depends
        combinationally on all clients' `valid` and `addr`.
    posted : ``In(spad_posted(config))``. Each bank has a word of buffer for its writes, written
        when nobody else uses the bank: a write that takes two busy banks needs them free at some
        time, not at the same time.
    """

    def __init__(self, config: NpuConfig, *, reads: int, writes: int):
        self._config = config
        super().__init__(
            {
                "read": In(spad_read(config)).array(reads),
                "write": In(spad_write(config)).array(writes),
                "posted": In(spad_posted(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        clients = [*self.read, *self.write]
        places = [self._place(m, str(i), port) for i, port in enumerate(clients)]
        needs = [needs for *_, needs in places]
        stale = Signal(self._config.banks)
        used = self._arbitrate(m, clients, needs, stale)
        self._check(m, platform, clients, needs)
        buffers, drains = self._buffers(m, used, stale)
        banks = self._banks(m, clients, places, buffers, drains)
        for i, port in enumerate(self.read):
            self._answer(m, i, port, places[i], banks)
        return m

    def _place(self, m: Module, i: str, port):
        """Offset, (row, bank) of the first and second word, and the banks needed."""
        cfg = self._config
        low = (cfg.word_bytes - 1).bit_length()
        bits = (cfg.banks - 1).bit_length()
        word = Signal(cfg.spad_addr_bits - low, name=f"word_{i}")
        following = Signal.like(word, name=f"following_{i}")
        offset = Signal(low, name=f"offset_{i}")
        b0, b1 = Signal(bits, name=f"bank0_{i}"), Signal(bits, name=f"bank1_{i}")
        two = Signal(name=f"two_{i}")
        needs = Signal(cfg.banks, name=f"needs_{i}")
        m.d.comb += [
            offset.eq(port.addr[:low]),
            word.eq(port.addr[low:]),
            following.eq(word + 1),
            b0.eq(bank_of(word, cfg.banks)),
            b1.eq(bank_of(following, cfg.banks)),
            two.eq(offset + port.size > cfg.word_bytes),
            needs.eq(Mux(port.valid, (1 << b0) | Mux(two, (1 << b1)[: cfg.banks], 0), 0)),
        ]
        return offset, (word[bits:], b0), (following[bits:], b1), two, needs

    def _arbitrate(self, m: Module, clients: list, needs: list[Signal], stale: Signal) -> Value:
        """Grants; banks in `stale` go to nobody but who is urgent. Returns: the banks in use."""
        n = len(clients)
        age = [Signal(range(AGE_LIMIT + 1), name=f"age_{i}") for i in range(n)]
        old = Signal(n)
        urgent = Signal(n)
        reserved = Signal(self._config.banks)
        m.d.comb += old.eq(
            Cat((a == AGE_LIMIT) & c.valid for a, c in zip(age, clients, strict=True))
        )
        for i in reversed(range(n)):
            with m.If(old[i]):
                m.d.comb += [urgent.eq(1 << i), reserved.eq(needs[i])]
        taken: Value = reserved | stale
        used: Value = Const(0, self._config.banks)
        for i, port in enumerate(clients):
            grant = Signal(name=f"grant_{i}")
            m.d.comb += [
                grant.eq(port.valid & (urgent[i] | ((needs[i] & taken) == 0))),
                port.ready.eq(grant),
            ]
            after = Signal(self._config.banks, name=f"taken_{i}")
            m.d.comb += after.eq(taken | Mux(grant, needs[i], 0))
            taken = after
            used = used | Mux(grant, needs[i], 0)
            with m.If(~port.valid | grant):
                m.d.sync += age[i].eq(0)
            with m.Elif(age[i] != AGE_LIMIT):
                m.d.sync += age[i].eq(age[i] + 1)
        return used

    def _buffers(self, m: Module, used: Value, stale: Signal):
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
        place = self._place(m, "posted", port)
        _, (row0, b0), (row1, b1), two, needs = place
        word, low, high = self._write_lanes(m, "posted", port, place)
        buffers = [Signal(layout, name=f"buffer_{b}") for b in range(cfg.banks)]
        full, drains, left = Signal(cfg.banks), Signal(cfg.banks), Signal(cfg.banks)
        owed, marked, accept = Signal(cfg.banks), Signal(), Signal()
        m.d.comb += [
            full.eq(Cat(buffer.full for buffer in buffers)),
            drains.eq(full & ~used),
            left.eq(full & ~drains),
            port.ready.eq(((needs & left) == 0) & ~(port.mark & marked)),
            accept.eq(port.valid & port.ready),
            port.landed.eq(marked & ((owed & left) == 0)),
            port.empty.eq(full == 0),
        ]
        for b, buffer in enumerate(buffers):
            hit0, hit1 = accept & (b0 == b), accept & two & (b1 == b)
            age = Signal(range(AGE_LIMIT + 1), name=f"buffer_age_{b}")
            m.d.comb += stale[b].eq(age == AGE_LIMIT)
            with m.If(hit0 | hit1):
                m.d.sync += [
                    buffer.row.eq(Mux(hit0, row0, row1)),
                    buffer.data.eq(word),
                    buffer.lanes.eq(Mux(hit0, low, high)),
                    buffer.full.eq(1),
                    age.eq(0),
                ]
            with m.Elif(drains[b]):
                m.d.sync += [buffer.full.eq(0), age.eq(0)]
            with m.Elif(buffer.full & ~stale[b]):
                m.d.sync += age.eq(age + 1)
        # What a mark waits for: the words that are left when its write is accepted, and its own.
        with m.If(accept & port.mark):
            m.d.sync += [marked.eq(1), owed.eq(left | needs)]
        with m.Else():
            m.d.sync += [owed.eq(owed & left), marked.eq(marked & ~port.landed)]
        return buffers, drains

    def _check(self, m: Module, platform, clients: list, needs: list[Signal]) -> None:
        if not checking(platform):
            return
        cfg = self._config
        taken: Value = Const(0, cfg.banks)
        for i, port in enumerate(clients):
            granted = port.valid & port.ready
            inside = (port.addr + port.size <= cfg.spad_bytes) & (port.size <= cfg.word_bytes)
            check(m, platform, ~granted | inside, f"scratchpad: client {i} is out of range")
            won = Signal(cfg.banks, name=f"won_{i}")
            m.d.comb += won.eq(Mux(granted, needs[i], 0))
            check(m, platform, (won & taken) == 0, f"scratchpad: client {i} got a taken bank")
            taken = taken | won
        port = self.posted
        inside = (port.addr + port.size <= cfg.spad_bytes) & (port.size <= cfg.word_bytes)
        accepted = port.valid & port.ready
        check(m, platform, ~accepted | inside, "scratchpad: a posted write is out of range")

    def _banks(
        self, m: Module, clients: list, places: list, buffers: list, drains: Value
    ) -> list[Sram]:
        """The banks, each driven by the client that won it, else by its buffer."""
        cfg = self._config
        width = cfg.word_bytes
        first_write = len(self.read)
        lanes = [
            self._write_lanes(m, str(j), port, places[first_write + j])
            for j, port in enumerate(self.write)
        ]
        banks = []
        for b in range(cfg.banks):
            m.submodules[f"bank_{b}"] = bank = Sram(
                depth=cfg.bank_depth, width=8 * width, granularity=8
            )
            address = Signal(range(cfg.bank_depth), name=f"address_{b}")
            m.d.comb += [bank.r_addr.eq(address), bank.w_addr.eq(address)]
            with m.If(drains[b]):
                m.d.comb += [
                    address.eq(buffers[b].row),
                    bank.w_data.eq(buffers[b].data),
                    bank.w_en.eq(buffers[b].lanes),
                ]
            for i, port in enumerate(clients):
                _, (row0, b0), (row1, b1), two, _ = places[i]
                granted = port.ready & port.valid
                hit0, hit1 = granted & (b0 == b), granted & two & (b1 == b)
                with m.If(hit0 | hit1):
                    m.d.comb += address.eq(Mux(hit0, row0, row1))
                    if i < first_write:
                        m.d.comb += bank.r_en.eq(1)
                    else:
                        word, low, high = lanes[i - first_write]
                        m.d.comb += [
                            bank.w_data.eq(word),
                            bank.w_en.eq(Mux(hit0, low, high)),
                        ]
            banks.append(bank)
        return banks

    def _write_lanes(self, m: Module, j: str, port, place):
        """Rotated data, and the lanes that go to the first and to the second word."""
        width = self._config.word_bytes
        offset = place[0]
        word = Signal(8 * width, name=f"w_data_{j}")
        lanes = Signal(2 * width, name=f"w_lanes_{j}")
        mask = ((1 << port.size) - 1)[:width]
        m.d.comb += [
            word.eq(rotate_bytes_left(port.data, offset, width)),
            lanes.eq(mask << offset),
        ]
        return word, lanes[:width], lanes[width:]

    def _answer(self, m: Module, i: int, port, place, banks: list[Sram]) -> None:
        """Pick the two words a cycle after the grant, merge and rotate them, register."""
        width = self._config.word_bytes
        offset, (_, b0), (_, b1), _, _ = place
        valid = Signal(name=f"r_valid_{i}")
        r_offset = Signal.like(offset, name=f"r_offset_{i}")
        r_b0, r_b1 = Signal.like(b0, name=f"r_b0_{i}"), Signal.like(b1, name=f"r_b1_{i}")
        m.d.sync += valid.eq(port.valid & port.ready)
        with m.If(port.valid & port.ready):
            m.d.sync += [r_offset.eq(offset), r_b0.eq(b0), r_b1.eq(b1)]
        words = []
        for name, select in (("first", r_b0), ("second", r_b1)):
            word = Signal(8 * width, name=f"{name}_{i}")
            with m.Switch(select):
                for b, bank in enumerate(banks):
                    with m.Case(b):
                        m.d.comb += word.eq(bank.r_data)
            words.append(word)
        pair = Cat(*words) >> (r_offset << 3)
        m.d.sync += port.data_valid.eq(valid)
        with m.If(valid):
            m.d.sync += port.data.eq(pair[: 8 * width])
