"""The cocotb test behind `RtlDevice`: serves commands from a socket until told to stop.

Each line in is a JSON object with `op`, each line out one with `ok` or `error`. The simulation
stands still while no command is under way; while it waits for the interrupt, no Python runs.

| op | fields | answer |
|---|---|---|
| reset | cycles | |
| write | registers: [[offset, value], …] | |
| read | registers: [offset, …] | values |
| run | start: [offset, value], cycles: limit | irq: bool, wall_s |
| exit | | |
"""

import json
import os
import socket
import time
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge, Timer

from cocotb_tests.harness.axil import AxiLite, AxiLiteError

CYCLE_NS = 10
SOCKET_VARIABLE = "SYSTOLA_SOCKET"


class Server:
    """Executes commands on `dut`."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._bus = AxiLite(dut)

    async def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        match command["op"]:
            case "reset":
                await self.reset(command["cycles"])
                return {}
            case "write":
                for offset, value in command["registers"]:
                    await self._bus.write(offset, value)
                return {}
            case "read":
                return {"values": [await self._bus.read(r) for r in command["registers"]]}
            case "run":
                return await self._run(*command["start"], limit=command["cycles"])
            case other:
                raise AxiLiteError(f"unknown command {other!r}")

    async def reset(self, cycles: int) -> None:
        self._bus.idle()
        self._dut.rst.value = 1
        await ClockCycles(self._dut.clk, cycles)
        await FallingEdge(self._dut.clk)
        self._dut.rst.value = 0
        await FallingEdge(self._dut.clk)

    async def _run(self, offset: int, value: int, *, limit: int) -> dict[str, Any]:
        start = time.perf_counter()
        await self._bus.write(offset, value)
        if not int(self._dut.irq.value):
            await First(RisingEdge(self._dut.irq), Timer(limit * CYCLE_NS, "ns"))
        wall = time.perf_counter() - start
        return {"irq": bool(int(self._dut.irq.value)), "wall_s": wall}


# The device limits each run in cycles; how long a user keeps the device open has no limit.
@cocotb.test()
async def serve(dut: Any) -> None:
    """Answer commands until `exit` or the end of the connection."""
    server = Server(dut)
    await server.reset(4)
    with socket.socket(fileno=int(os.environ[SOCKET_VARIABLE])) as connection:
        stream = connection.makefile("rw", encoding="utf-8")
        for line in stream:
            command = json.loads(line)
            if command["op"] == "exit":
                return
            try:
                answer = {"ok": True, **await server.execute(command)}
            except AxiLiteError as error:
                answer = {"ok": False, "error": str(error)}
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
