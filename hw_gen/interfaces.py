"""Signatures between blocks: on-chip memory ports, AXI, engine status."""

from amaranth.hdl import *
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw_gen.layouts import INDEX_BITS, PostStream, WaitPort, acc_tag_layout
from spec.config import NpuConfig
from spec.isa import CHIP_BITS, MEM_BITS, REGIONS, Engine
from spec.memmap import LIMIT_BITS, Fault, Stall

PROGRAM_BITS = 32
"""Width of the register with the program's size in bytes."""

READ_LATENCY = 3
"""Fewest cycles from an accepted scratchpad read to its data."""


def size_bits(config: NpuConfig) -> int:
    """Width of an access size in bytes, 0…word_bytes."""
    return config.word_bytes.bit_length()


def spad_read(config: NpuConfig, tag: ShapeLike = 1, *, lanes: bool = False) -> wiring.Signature:
    """Scratchpad read, seen by the client: `size` bytes (1…word_bytes) at any byte address.

    A read is accepted with valid & ready; `ready` comes from a flip-flop. The bank is read later,
    when no other client has it: ``data_valid`` comes READ_LATENCY cycles after the acceptance or
    later, in order, with byte 0 lowest and with the read's `tag`. Bytes at and above `size` are
    undefined. A read of no bytes needs no bank and is answered in its turn. Addresses must be in
    range. A write that is accepted after a read may be seen by it until its data comes.
    A client without tags has one bit that nobody looks at: Verilog has no signals of no bits.

    lanes : the client also says which `lane` of the data byte 0 goes to. The others follow it, and
    lane 0 the last lane.
    """
    return wiring.Signature(
        {
            **({"lane": Out(range(config.word_bytes))} if lanes else {}),
            "valid": Out(1),
            "ready": In(1),
            "addr": Out(config.spad_addr_bits),
            "size": Out(size_bits(config)),
            "tag": Out(tag),
            "data_valid": In(1),
            "data": In(8 * config.word_bytes),
            "data_tag": In(tag),
        }
    )


def spad_write(config: NpuConfig) -> wiring.Signature:
    """Scratchpad write, seen by the client: `size` bytes of `data` to any byte address.

    The first of them is in `lane`. The others follow it, and lane 0 the last lane.
    An accepted write lands later. ``landed`` strobes once for each write that was accepted with
    ``mark``: this one and all before it are seen by every read accepted in a later cycle.
    ``empty``: every write has landed.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "ready": In(1),
            "addr": Out(config.spad_addr_bits),
            "size": Out(size_bits(config)),
            "lane": Out(range(config.word_bytes)),
            "data": Out(8 * config.word_bytes),
            "mark": Out(1),
            "landed": In(1),
            "empty": In(1),
        }
    )


def table_write(config: NpuConfig) -> wiring.Signature:
    """Write to the parameter memory or TABLE, seen by the client; always accepted.

    `addr` is a byte address, a multiple of bus_bytes; `strobe` has a bit per byte of `data`.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "addr": Out(CHIP_BITS),
            "data": Out(8 * config.bus_bytes),
            "strobe": Out(config.bus_bytes),
        }
    )


def memory_words(width: int) -> wiring.Signature:
    """What a memory answers, seen by the memory: `data` counts while `valid`."""
    return wiring.Signature({"valid": Out(1), "data": Out(width)})


def acc_sums(config: NpuConfig) -> wiring.Signature:
    """Sums of products, seen by the array: `tag` says what `sums` is two cycles later.

    They are never refused. ``done``: a vector whose tag has ``fires`` has been written.
    """
    return wiring.Signature(
        {"tag": Out(acc_tag_layout(config)), "sums": Out(32 * config.cols), "done": In(1)}
    )


def acc_update(config: NpuConfig) -> wiring.Signature:
    """A read and a write of the accumulator, seen by a client that adds to what it read.

    Addresses are accepted with valid & ready. `r_data` comes one cycle after the read was, for
    that cycle only. A vector is not read in the cycle in which it is written.
    """
    return wiring.Signature(
        {
            "r_valid": Out(1),
            "r_ready": In(1),
            "r_addr": Out(config.acc_addr_bits),
            "r_data": In(32 * config.cols),
            **dict(acc_write(config).members.items()),
        }
    )


def acc_write(config: NpuConfig) -> wiring.Signature:
    """A write of the accumulator, seen by the client; accepted with valid & ready."""
    return wiring.Signature(
        {
            "w_valid": Out(1),
            "w_ready": In(1),
            "w_addr": Out(config.acc_addr_bits),
            "w_data": Out(32 * config.cols),
        }
    )


def acc_access(config: NpuConfig) -> wiring.Signature:
    """Reads and writes of the accumulator that have nothing to do with each other.

    ``request`` asks for a vector; ``words`` has it two cycles after that was accepted.
    """
    return wiring.Signature(
        {
            "request": Out(stream.Signature(config.acc_addr_bits)),
            "words": In(memory_words(32 * config.cols)),
            "write": Out(acc_write(config)),
        }
    )


STALL = Shape.cast(Stall)
CAUSE = Shape.cast(Fault)
ENGINE = Shape.cast(Engine)

EngineStatus = wiring.Signature(
    {
        "stall": Out(STALL),
        "index": Out(INDEX_BITS),
        "idle": Out(1),
        "rests": Out(1),
        "fault": Out(1),
        "cause": Out(CAUSE),
        "fault_index": Out(INDEX_BITS),
    }
)
"""What every engine reports each cycle: a `spec.memmap.Stall`, the instruction that it is at,
whether nothing is left in it (queue, pipeline, pending posts included), whether it `rests`, and a
fault strobe.

It rests while it is idle, and while nothing is under way but an instruction that waits for
semaphores, or in fetch for room in a queue. Some cycles later no register of it changes until it is
woken."""

Overflow = wiring.Signature({"strobe": Out(1), "engine": Out(ENGINE), "index": Out(INDEX_BITS)})
"""A post of this engine's instruction passed a semaphore's maximum."""


def semaphore_ports(waiters: int, posters: int) -> dict[str, wiring.Member]:
    """Members of `Semaphores`, seen by them."""
    return {
        "wait": In(WaitPort).array(waiters),
        "post": In(PostStream).array(posters),
        "overflow": Out(Overflow),
    }


def program_start(config: NpuConfig) -> wiring.Signature:
    """A run, seen by the registers: `bytes` bytes at `address`, from ``start`` to ``done``."""
    return wiring.Signature(
        {
            "start": Out(1),
            "address": Out(config.axi_addr_bits),
            "bytes": Out(PROGRAM_BITS),
            "done": In(1),
        }
    )


def memory_regions(config: NpuConfig) -> wiring.Signature:
    """The regions of a run, seen by the registers: region r is the `limit` bytes from `base` on."""
    return wiring.Signature(
        {
            "base": Out(config.axi_addr_bits).array(config.regions),
            "limit": Out(LIMIT_BITS).array(config.regions),
        }
    )


Outside = wiring.Signature({"region": Out(range(REGIONS)), "offset": Out(MEM_BITS)})
"""Where the run begins that LOAD or STORE refused, in bytes from the region's base."""


ReadHandshakes = wiring.Signature(
    {name: Out(1) for name in ("arvalid", "arready", "rvalid", "rready", "rlast")}
)
WriteHandshakes = wiring.Signature(
    {name: Out(1) for name in ("awvalid", "awready", "bvalid", "bready")}
)
"""What `watch` takes of AXI channels for somebody who only looks on."""


def watch(m: Module, port, observer) -> None:
    """Every member of `observer` follows the member of that name of `port`."""
    for name in observer.signature.members:
        m.d.comb += getattr(observer, name).eq(getattr(port, name))


def axi_read(config: NpuConfig) -> wiring.Signature:
    """AXI4 read channels seen by the manager."""
    return wiring.Signature(
        {
            "arvalid": Out(1),
            "arready": In(1),
            "arid": Out(1),
            "araddr": Out(config.axi_addr_bits),
            "arlen": Out(8),
            "arsize": Out(3),
            "arburst": Out(2),
            "rvalid": In(1),
            "rready": Out(1),
            "rid": In(1),
            "rdata": In(8 * config.bus_bytes),
            "rresp": In(2),
            "rlast": In(1),
        }
    )


def axi_write(config: NpuConfig) -> wiring.Signature:
    """AXI4 write channels seen by the manager."""
    return wiring.Signature(
        {
            "awvalid": Out(1),
            "awready": In(1),
            "awid": Out(1),
            "awaddr": Out(config.axi_addr_bits),
            "awlen": Out(8),
            "awsize": Out(3),
            "awburst": Out(2),
            "wvalid": Out(1),
            "wready": In(1),
            "wdata": Out(8 * config.bus_bytes),
            "wstrb": Out(config.bus_bytes),
            "wlast": Out(1),
            "bvalid": In(1),
            "bready": Out(1),
            "bid": In(1),
            "bresp": In(2),
        }
    )


axi_lite = wiring.Signature(
    {
        "awvalid": Out(1),
        "awready": In(1),
        "awaddr": Out(12),
        "wvalid": Out(1),
        "wready": In(1),
        "wdata": Out(32),
        "wstrb": Out(4),
        "bvalid": In(1),
        "bready": Out(1),
        "bresp": In(2),
        "arvalid": Out(1),
        "arready": In(1),
        "araddr": Out(12),
        "rvalid": In(1),
        "rready": Out(1),
        "rdata": In(32),
        "rresp": In(2),
    }
)
"""AXI4-Lite seen by the manager."""
