"""The accumulator: four banks, so that some drain while others fill."""

from collections.abc import Callable

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw_gen.blocks.adders import fast_sum
from hw_gen.blocks.choose import behind_first, chosen_of
from hw_gen.blocks.sram import Sram
from hw_gen.interfaces import acc_access, acc_sums, acc_update
from hw_gen.platform import asks_for
from spec.config import NpuConfig

BANKS = 4
_BANK_BITS = 2


class Accumulator(wiring.Component):
    """`acc_vectors` vectors of `cols` int32 with accumulation in place, one vector a cycle.

    Vector v lies in bank v // acc_bank. A bank serves one read and one write a cycle: the matrix
    engine's before the depthwise engine's before the vector engine's. On an FPGA all banks together
    serve one write.

    Members
    -------
    matrix : ``In(acc_sums(config))``. depthwise : ``In(acc_update(config))``, where the
        configuration has that engine. vector : ``In(acc_access(config))``.

    Timing: a sum is written two cycles after its tag came, in the cycle in which it comes itself.
    In between, the cycle after the old vector was read, that is taken into a register. Accumulation
    to one address is exact at any distance: sums that the memory does not have yet are forwarded.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        super().__init__(
            {
                "matrix": In(acc_sums(config)),
                **({"depthwise": In(acc_update(config))} if config.depthwise else {}),
                "vector": In(acc_access(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        banks = []
        for b in range(BANKS):
            # Of one word, an address would be no bits wide.
            bank = Sram(depth=max(2, cfg.acc_bank), width=32 * cfg.cols, forwards=True)
            m.submodules[f"bank_{b}"] = bank
            banks.append(bank)
        tag = self.matrix.tag
        read, adds = Signal(tag.shape()), Signal(tag.shape())
        m.d.sync += [read.eq(tag), adds.eq(read)]
        total = self._accumulate(m, platform, read, adds, banks)
        m.d.comb += self.matrix.done.eq(adds.valid & adds.fires)

        reads = [(tag.valid & ~tag.overwrite, None, tag.addr)]
        writes = [(adds.valid, None, adds.addr, total)]
        if cfg.depthwise:
            port = self.depthwise
            reads.append((port.r_valid, port.r_ready, port.r_addr))
            writes.append((port.w_valid, port.w_ready, port.w_addr, port.w_data))
            bank = Signal(_BANK_BITS, name="depthwise_bank")
            with m.If(port.r_valid & port.r_ready):
                m.d.sync += bank.eq(self._bank(port.r_addr))
            m.d.comb += port.r_data.eq(self._pick(m, "depthwise_old", bank, banks))
        request, write_port = self.vector.request, self.vector.write
        reads.append((request.valid, request.ready, request.payload))
        writes.append(
            (write_port.w_valid, write_port.w_ready, write_port.w_addr, write_port.w_data)
        )

        def ask(bank: Sram, addr: Value) -> list:
            return [bank.r_en.eq(1), bank.r_addr.eq(addr)]

        def put(bank: Sram, addr: Value, value: Value) -> list:
            return [bank.w_en.eq(1), bank.w_addr.eq(addr), bank.w_data.eq(value)]

        self._serve(m, banks, reads, ask)
        if asks_for(platform, "for_fpga"):
            self._serve_one(m, banks, writes)
        else:
            self._serve(m, banks, writes, put)
        self._answer(m, banks)
        return m

    def _bank(self, addr: Value) -> Value:
        return addr[-_BANK_BITS:]

    def _pick(self, m: Module, name: str, bank: Value, banks: list[Sram]) -> Signal:
        """What bank number `bank` has read."""
        value = Signal(32 * self._config.cols, name=name)
        with m.Switch(bank):
            for b, each in enumerate(banks):
                with m.Case(b):
                    m.d.comb += value.eq(each.r_data)
        return value

    def _serve_one(self, m: Module, banks: list[Sram], clients: list[tuple]) -> None:
        """Writes for the first of the clients that want something. All banks get the same data."""
        wants, readies, addrs, values = zip(*clients, strict=True)
        late = behind_first(Cat(wants))
        wins = [want & ~behind for want, behind in zip(wants, late, strict=True)]
        m.d.comb += [
            r.eq(~behind) for r, behind in zip(readies, late, strict=True) if r is not None
        ]
        addr, value = chosen_of(wins, addrs), chosen_of(wins, values)
        for b, bank in enumerate(banks):
            m.d.comb += [
                bank.w_en.eq(Cat(wants).any() & (self._bank(addr) == b)),
                bank.w_addr.eq(addr[:-_BANK_BITS]),
                bank.w_data.eq(value),
            ]

    def _serve(
        self, m: Module, banks: list[Sram], clients: list[tuple], act: Callable[..., list]
    ) -> None:
        """Each bank does what the first of the (valid, ready, address, …) clients wants of it."""
        for i, (_, ready, addr, *_) in enumerate(clients):
            earlier = [v & (self._bank(a) == self._bank(addr)) for v, _, a, *_ in clients[:i]]
            if ready is not None:
                m.d.comb += ready.eq(~Cat(earlier).any())
        for b, bank in enumerate(banks):
            # The last assignment counts.
            for valid, _, addr, *more in reversed(clients):
                with m.If(valid & (self._bank(addr) == b)):
                    m.d.comb += act(bank, addr[:-_BANK_BITS], *more)

    def _accumulate(
        self, m: Module, platform, read: Signal, adds: Signal, banks: list[Sram]
    ) -> Signal:
        """The sums that are written: of the vector that `adds`. What they are added to is known
        a cycle before: what was `read`, or a sum of the last two cycles for the same address."""
        width = len(self.matrix.sums)
        total = Signal(width, name="total")
        previous, old = (Signal(width, name=n, reset_less=True) for n in ("previous", "old"))
        wrote = Signal.like(adds)
        before = self._pick(m, "before", self._bank(read.addr), banks)
        same, late = (Signal(name=n) for n in ("same", "late"))
        m.d.comb += [
            same.eq(adds.valid & (adds.addr == read.addr)),
            late.eq(wrote.valid & (wrote.addr == read.addr)),
        ]
        m.d.sync += wrote.eq(adds)
        with m.If(adds.valid):
            m.d.sync += previous.eq(total)
        with m.If(read.valid):
            newest = Mux(same, total, Mux(late, previous, before))
            m.d.sync += old.eq(Mux(read.overwrite, 0, newest))
        for c in range(self._config.cols):
            lane = slice(32 * c, 32 * c + 32)
            sums = self.matrix.sums[lane]
            m.d.comb += total[lane].eq(fast_sum(m, platform, f"total_{c}", old[lane], sums))
        return total

    def _answer(self, m: Module, banks: list[Sram]) -> None:
        valid, bank = Signal(), Signal(_BANK_BITS)
        request, words = self.vector.request, self.vector.words
        m.d.sync += [valid.eq(request.valid & request.ready), words.valid.eq(valid)]
        with m.If(request.valid & request.ready):
            m.d.sync += bank.eq(self._bank(request.payload))
        value = self._pick(m, "answer", bank, banks)
        answered = Signal.like(value, name="answered", reset_less=True)
        m.d.comb += words.data.eq(answered)
        with m.If(valid):
            m.d.sync += answered.eq(value)
