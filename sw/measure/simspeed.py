"""How fast the simulation is, beside the same design without cocotb.

The yardstick is the same Verilog, Verilated and compiled with the same optimization flags but
without `--vpi` and public signals, clocked by a plain C++ loop (rtl/bare_main.cpp), on the same
program and memory file. Runs alternate; the best of each counts; start-up is excluded.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spec.config import NpuConfig
from spec.memmap import OFFSETS, Control, Status
from spec.program import Image
from sw.runtime.report import check_json, write_json
from sw.runtime.rtl import RtlDevice
from sw.runtime.simulator.build import Build, Kind, build_simulator
from sw.runtime.simulator.errors import SimulationError

TARGET = 0.85
MIN_CYCLES = 1_000_000
ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSpeed:
    """cycles: of one run. cocotb_hz, bare_hz: best simulated cycles per second of each."""

    config: str
    config_digest: str
    name: str
    cycles: int
    cocotb_hz: float
    bare_hz: float
    ratio: float
    target: float = TARGET


def simspeed(
    config: NpuConfig, image: Image, inputs: Mapping[str, NDArray[Any]], rounds: int = ROUNDS
) -> SimSpeed:
    """Run `image` `rounds` times under cocotb and as often bare, alternating.

    `SimulationError` if the two disagree in outputs or cycles, or if a run takes less than
    `MIN_CYCLES` cycles: its figure would be mostly noise.
    """
    bare = build_simulator(config, Kind.BARE)
    best = {"cocotb": float("inf"), "bare": float("inf")}
    with RtlDevice(config) as device:
        device.load(image)
        for name, array in inputs.items():
            device.write(name, array)
        for _ in range(rounds):
            result = device.run()
            cycles = result.cycles or 0
            if cycles < MIN_CYCLES:
                raise SimulationError(f"{cycles} cycles: too short, {MIN_CYCLES} are needed")
            outputs = _outputs(device, image)
            best["cocotb"] = min(best["cocotb"], result.wall_s)
            best["bare"] = min(best["bare"], run_bare(bare, device, cycles))
            for name, array in _outputs(device, image).items():
                if not np.array_equal(array, outputs[name]):
                    raise SimulationError(f"output {name}: the bare simulation gives other values")
    bare.release()
    return SimSpeed(
        config=config.name,
        config_digest=config.digest_hex,
        name=str(image.info.get("name", "program")),
        cycles=cycles,
        cocotb_hz=cycles / best["cocotb"],
        bare_hz=cycles / best["bare"],
        ratio=best["bare"] / best["cocotb"],
    )


def main(config: NpuConfig, json_file: Path | None = None) -> None:
    """Measure with a large matrix product, print both figures; exit code 1 below the target."""
    from sw.compiler import compile_graph
    from sw.models.kernels import kernel

    check_json(json_file)
    # One fold vector a cycle: M x K x N / PEs cycles, a little above the minimum.
    m, k = 256, 64 * config.rows
    n = config.cols * -(-MIN_CYCLES * 17 // 16 // (m * 64))
    work = kernel("matmul", {"m": m, "k": k, "n": n})
    image = compile_graph(work.graph, config, name=f"matmul_{m}x{k}x{n}")
    speed = simspeed(config, image, work.inputs)
    lines = [
        f"{speed.name} on {speed.config}: {speed.cycles:,} cycles, best of {ROUNDS}",
        f"  under cocotb  {speed.cocotb_hz / 1e3:8.1f} kHz",
        f"  bare C++ loop {speed.bare_hz / 1e3:8.1f} kHz",
        f"  ratio         {speed.ratio:8.3f}  (target {TARGET} or more)",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if json_file is not None:
        write_json([asdict(speed)], json_file)
    if speed.ratio < TARGET:
        raise SystemExit(1)


def _outputs(device: RtlDevice, image: Image) -> dict[str, NDArray[Any]]:
    return {port.name: device.read(port.name) for port in image.outputs}


def run_bare(bare: Build, device: RtlDevice, cycles: int) -> float:
    """Seconds of one bare run on the device's memory, which stands still meanwhile."""
    memory = device.prepare_memory()
    command = [str(bare.program), str(2 * cycles)]
    command += [str(OFFSETS["CONTROL"]), str(int(Control.START)), str(OFFSETS["STATUS"])]
    command += [str(number) for pair in device.setup_registers() for number in pair]
    command += [f"+memory={memory.memory_path}", f"+control={memory.control_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SimulationError(
            f"the bare simulation failed (exit code {done.returncode})\n{done.stderr[-2000:]}"
        )
    answer = json.loads(done.stdout)
    # Its count includes the handshake of START and the interrupt.
    if answer["status"] != Status.DONE or abs(answer["cycles"] - cycles) > 16:
        raise SimulationError(
            f"the bare simulation took {answer['cycles']} cycles and ended with status "
            f"{answer['status']}; under cocotb it took {cycles}"
        )
    return float(answer["wall_s"])
