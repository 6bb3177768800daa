"""Signatures between blocks: on-chip memory ports, AXI, engine status."""

from amaranth.hdl import *
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw_gen.layouts import INDEX_BITS
from spec.config import NpuConfig

READ_LATENCY = 2
"""Cycles from an accepted scratchpad read to its data."""


def size_bits(config: NpuConfig) -> int:
    """Width of an access size in bytes, 0…word_bytes."""
    return config.word_bytes.bit_length()


def spad_read(config: NpuConfig) -> wiring.Signature:
    """Scratchpad read, seen by the client: `size` bytes (1…word_bytes) at any byte address.

    ``data_valid`` comes READ_LATENCY cycles after valid & ready, in order, byte 0 lowest; bytes
    at and above `size` are undefined. Addresses must be in range.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "ready": In(1),
            "addr": Out(config.spad_addr_bits),
            "size": Out(size_bits(config)),
            "data_valid": In(1),
            "data": In(8 * config.word_bytes),
        }
    )


def spad_write(config: NpuConfig) -> wiring.Signature:
    """Scratchpad write, seen by the client: bytes 0…size-1 of `data` to any byte address.

    A write accepted in one cycle is seen by every read accepted in a later one.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "ready": In(1),
            "addr": Out(config.spad_addr_bits),
            "size": Out(size_bits(config)),
            "data": Out(8 * config.word_bytes),
        }
    )


def spad_posted(config: NpuConfig) -> wiring.Signature:
    """Scratchpad write through a buffer, seen by the client: as `spad_write`, but it lands later.

    ``landed`` strobes once for each write that was accepted with ``mark``: this one and all before
    it are seen by every read accepted in a later cycle. ``empty``: every write has landed.
    """
    return wiring.Signature(
        {
            **dict(spad_write(config).members.items()),
            "mark": Out(1),
            "landed": In(1),
            "empty": In(1),
        }
    )


def table_write(config: NpuConfig, addr_bits: int) -> wiring.Signature:
    """Write to the parameter memory or TABLE, seen by the client; always accepted.

    `addr` is a byte address, a multiple of bus_bytes; `strobe` has a bit per byte of `data`.
    """
    return wiring.Signature(
        {
            "valid": Out(1),
            "addr": Out(addr_bits),
            "data": Out(8 * config.bus_bytes),
            "strobe": Out(config.bus_bytes),
        }
    )


EngineStatus = wiring.Signature(
    {
        "stall": Out(3),
        "index": Out(INDEX_BITS),
        "idle": Out(1),
        "fault": Out(1),
        "cause": Out(3),
        "fault_index": Out(INDEX_BITS),
    }
)
"""What every engine reports each cycle: a `spec.memmap.Stall`, the instruction that it is at,
whether nothing is left in it (queue, pipeline, pending posts included), and a fault strobe."""


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
