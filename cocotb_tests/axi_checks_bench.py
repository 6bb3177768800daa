"""Waits for the end of `axi_checks_tb`: reached only when no assertion stops the simulation."""

import cocotb
from cocotb.triggers import RisingEdge


@cocotb.test(timeout_time=1000, timeout_unit="ns")
async def reaches_its_end(dut):
    await RisingEdge(dut.done)
