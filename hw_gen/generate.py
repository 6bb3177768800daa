"""From a configuration to files: Verilog, the SystemVerilog blocks, C header and package."""

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path

from amaranth.back.verilog import convert
from amaranth.lib.wiring import Flow

from hw_gen.blocks.array import array_shape
from hw_gen.blocks.array_element import ArrayShape, ProcessingTile
from hw_gen.fpga.top import Board, FpgaTop
from hw_gen.headers import LICENSE, c_header, sv_package
from hw_gen.interfaces import axi_lite, axi_read, axi_write
from hw_gen.platform import FPGA_FORM, RtlPlatform
from hw_gen.top import Npu
from hw_gen.verilog import one_process_a_register, repeated_bits
from spec.config import NpuConfig

TOP = "systola_npu"
FPGA = "systola_fpga"
"""The NPU with memory and a serial line (`hw_gen.fpga`)."""
ELEMENTS = "systola_elements.v"
"""The processing elements, a module for each kind."""
SIMULATED = ("systola_array.sv", "systola_idle_clock.sv")
"""For simulation: the array as loops, clocks that stand still."""
SV_BLOCKS = ("systola_multiplier.sv", "systola_sram.sv")
"""Written by hand, to be replaced by what a process or an FPGA has."""

_RTL = Path(__file__).resolve().parent.parent / "rtl"


def _ports(npu: Npu, config: NpuConfig) -> dict:
    """Verilog names: `m_axi_*`, `s_axil_*`, `irq`."""
    ports = {"irq": (npu.irq, None)}
    for prefix, interface, signature in (
        ("m_axi", npu.read, axi_read(config)),
        ("m_axi", npu.write, axi_write(config)),
        ("s_axil", npu.control, axi_lite),
    ):
        for name, member in signature.members.items():
            assert member.flow in (Flow.In, Flow.Out)
            ports[f"{prefix}_{name}"] = (getattr(interface, name), None)
    return ports


def npu_verilog(
    config: NpuConfig,
    *,
    assertions: bool = False,
    source_lines: bool = False,
    loops: bool = False,
    for_fpga: bool = False,
    clock_enables: bool = False,
) -> str:
    """The NPU as one Verilog text, top module `systola_npu`, clock `clk`, reset `rst`.

    assertions: with the blocks' own invariants (see `hw_gen.checks`).
    source_lines: with the line of the generator that each signal comes from, as attribute `src`.
    loops, clock_enables: see `RtlPlatform`. for_fpga: in the form for an FPGA (`FPGA_FORM`).
    """
    with _no_garbage_collection():
        npu = Npu(config)
        text = convert(
            npu,
            name=TOP,
            platform=RtlPlatform(
                assertions=assertions,
                loops=loops,
                clock_enables=clock_enables,
                idle_clocks=loops and not for_fpga,
                **(FPGA_FORM if for_fpga else {"plain_sums": loops}),
            ),
            ports=_ports(npu, config),
            emit_src=source_lines,
            strip_internal_attrs=not source_lines,
        )
    text = one_process_a_register(text)
    return f"// {LICENSE}\n{repeated_bits(text) if loops else text}"


def fpga_verilog(config: NpuConfig, board: Board, *, source_lines: bool = False) -> str:
    """The top for an FPGA with the NPU in it, top module `systola_fpga`."""
    with _no_garbage_collection():
        top = FpgaTop(config, bytes=board.bytes, divisor=board.divisor)
        ports = {name: (getattr(top, name), None) for name in top.signature.members}
        text = convert(
            top,
            name=FPGA,
            platform=RtlPlatform(**FPGA_FORM),
            ports=ports,
            emit_src=source_lines,
            strip_internal_attrs=not source_lines,
        )
    return f"// {LICENSE}\n{text}"


def elements_verilog(shape: ArrayShape, *, source_lines: bool = False) -> str:
    """The modules of the tiles of an array."""
    texts = [f"// {LICENSE}\n"]
    for name, kind in sorted(shape.kinds().items()):
        texts.append(
            convert(
                ProcessingTile(kind),
                name=name,
                platform=RtlPlatform(),
                emit_src=source_lines,
                strip_internal_attrs=not source_lines,
            )
        )
    return "".join(texts)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Amaranth's netlist is millions of objects that stay: looking for cycles takes a quarter."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def generate(
    config: NpuConfig,
    out_dir: Path,
    *,
    assertions: bool = False,
    source_lines: bool = False,
    loops: bool = False,
    for_fpga: bool = False,
    clock_enables: bool = False,
    board: Board | None = None,
) -> list[Path]:
    """Write everything an integrator needs to `out_dir`; returns the paths, Verilog first.

    board: the top for an FPGA in place of the NPU alone. Equal digests give equal bytes when Python
    runs with a fixed PYTHONHASHSEED.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    texts = {}
    if board is None:
        texts[f"{TOP}.v"] = npu_verilog(
            config,
            assertions=assertions,
            source_lines=source_lines,
            loops=loops,
            for_fpga=for_fpga,
            clock_enables=clock_enables,
        )
    else:
        texts[f"{FPGA}.v"] = fpga_verilog(config, board, source_lines=source_lines)
    if loops:
        texts |= {name: (_RTL / name).read_text() for name in SIMULATED}
    else:
        texts[ELEMENTS] = elements_verilog(array_shape(config), source_lines=source_lines)
    texts |= {name: (_RTL / name).read_text() for name in SV_BLOCKS}
    texts |= {"systola_pkg.sv": sv_package(config), "systola_params.h": c_header(config)}
    paths = []
    for name, text in texts.items():
        path = out_dir / name
        path.write_text(text)
        paths.append(path)
    return paths
