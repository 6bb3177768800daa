"""The accumulator: four banks, so that some drain while others fill."""

from collections.abc import Callable

from amaranth.hdl import *
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.blocks.sram import Sram
from spec.config import NpuConfig

BANKS = 4
_BANK_BITS = 2


def acc_tag_layout(config: NpuConfig) -> data.StructLayout:
    """What travels with a vector through the array."""
    return data.StructLayout({"valid": 1, "addr": config.acc_addr_bits, "overwrite": 1, "fires": 1})


def acc_update(config: NpuConfig) -> wiring.Signature:
    """A read and a write of the accumulator, seen by a client that adds to what it read.

    Addresses are accepted with valid & ready. `r_data` comes one cycle after the read was, for
    that cycle only; a read in the cycle of a write to the same vector gives the old contents.
    """
    return wiring.Signature(
        {
            "r_valid": Out(1),
            "r_ready": In(1),
            "r_addr": Out(config.acc_addr_bits),
            "r_data": In(32 * config.cols),
            "w_valid": Out(1),
            "w_ready": In(1),
            "w_addr": Out(config.acc_addr_bits),
            "w_data": Out(32 * config.cols),
        }
    )


class Accumulator(wiring.Component):
    """`acc_vectors` vectors of `cols` int32 with accumulation in place, one vector a cycle.

    Vector v lies in bank v // acc_bank. A bank serves one read and one write a cycle: the matrix
    engine's before the depthwise engine's before the vector engine's.

    Members
    -------
    tag : what the array delivers in the *next* cycle; `sums` : the vector itself, a cycle later.
        The matrix engine is never refused.
    done : a vector whose tag has ``fires`` has been written.
    depthwise : ``In(acc_update(config))``, where the configuration has that engine.
    r : vector engine's read: address accepted with valid & ready, data two cycles later
        (``r_data_valid``, ``r_data``).
    w_valid, w_ready, w_addr, w_data : vector engine's write.

    Back-to-back accumulation to one address is exact: the sum on its way is forwarded.
    """

    def __init__(self, config: NpuConfig):
        self._config = config
        width = 32 * config.cols
        super().__init__(
            {
                "tag": In(acc_tag_layout(config)),
                "sums": In(width),
                "done": Out(1),
                **({"depthwise": In(acc_update(config))} if config.depthwise else {}),
                "r": In(stream.Signature(config.acc_addr_bits)),
                "r_data_valid": Out(1),
                "r_data": Out(width),
                "w_valid": In(1),
                "w_ready": Out(1),
                "w_addr": In(config.acc_addr_bits),
                "w_data": In(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        cfg = self._config
        banks = []
        for b in range(BANKS):
            # Of one word, an address would be no bits wide.
            bank = Sram(depth=max(2, cfg.acc_bank), width=32 * cfg.cols)
            m.submodules[f"bank_{b}"] = bank
            banks.append(bank)
        now = Signal(self.tag.shape())
        m.d.sync += now.eq(self.tag)
        total = self._accumulate(m, now, banks)
        m.d.comb += self.done.eq(now.valid & now.fires)

        reads = [(self.tag.valid & ~self.tag.overwrite, None, self.tag.addr)]
        writes = [(now.valid, None, now.addr, total)]
        if cfg.depthwise:
            port = self.depthwise
            reads.append((port.r_valid, port.r_ready, port.r_addr))
            writes.append((port.w_valid, port.w_ready, port.w_addr, port.w_data))
            bank = Signal(_BANK_BITS, name="depthwise_bank")
            with m.If(port.r_valid & port.r_ready):
                m.d.sync += bank.eq(self._bank(port.r_addr))
            m.d.comb += port.r_data.eq(self._pick(m, "depthwise_old", bank, banks))
        reads.append((self.r.valid, self.r.ready, self.r.payload))
        writes.append((self.w_valid, self.w_ready, self.w_addr, self.w_data))

        def read(bank: Sram, addr: Value) -> list:
            return [bank.r_en.eq(1), bank.r_addr.eq(addr)]

        def write(bank: Sram, addr: Value, value: Value) -> list:
            return [bank.w_en.eq(1), bank.w_addr.eq(addr), bank.w_data.eq(value)]

        self._serve(m, banks, reads, read)
        self._serve(m, banks, writes, write)
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

    def _accumulate(self, m: Module, now: Signal, banks: list[Sram]) -> Signal:
        """Add to what was read, or to the sum written a cycle ago when it has the same address."""
        width = len(self.sums)
        total, previous, old = (Signal(width, name=n) for n in ("total", "previous", "old"))
        last_addr, last_valid = Signal.like(now.addr, name="last_addr"), Signal()
        m.d.sync += [last_valid.eq(now.valid), last_addr.eq(now.addr)]
        with m.If(now.valid):
            m.d.sync += previous.eq(total)
        before = self._pick(m, "before", self._bank(now.addr), banks)
        with m.If(~now.overwrite):
            m.d.comb += old.eq(Mux(last_valid & (last_addr == now.addr), previous, before))
        for c in range(self._config.cols):
            lane = slice(32 * c, 32 * c + 32)
            m.d.comb += total[lane].eq(old[lane] + self.sums[lane])
        return total

    def _answer(self, m: Module, banks: list[Sram]) -> None:
        valid, bank = Signal(), Signal(_BANK_BITS)
        m.d.sync += [valid.eq(self.r.valid & self.r.ready), self.r_data_valid.eq(valid)]
        with m.If(self.r.valid & self.r.ready):
            m.d.sync += bank.eq(self._bank(self.r.payload))
        value = self._pick(m, "answer", bank, banks)
        with m.If(valid):
            m.d.sync += self.r_data.eq(value)
