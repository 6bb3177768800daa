"""A kernel or a model on a board, compared with the golden model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spec.config import NpuConfig
from sw.measure.profile.run import target_graph
from sw.runtime.fpga.device import SerialDevice
from sw.runtime.fpga.line import LineError, Stream
from sw.runtime.fpga.simulated import SimulatedBoard
from sw.runtime.golden import GoldenDevice
from sw.runtime.progress import Say
from sw.runtime.report import Report, compare
from sw.runtime.session import run_image

if TYPE_CHECKING:
    from sw.models.supplied import Supplied

SIMULATED = "sim"
TIMEOUT_S = 10.0


def run_on_board(
    target: str,
    shape: str | None,
    supplied: "Supplied",
    config: NpuConfig,
    port: str,
    memory_bytes: int,
    baud: int,
    seed: int,
    say: Say,
) -> Report:
    """Compile, run on the board at `port` and on the golden model, and compare all outputs."""
    from sw.compiler.pipeline import run_stages

    graph, inputs, text = target_graph(target, shape, seed, supplied)
    image = run_stages(graph, config, name=target).image
    expected, _ = run_image(image, inputs, GoldenDevice(config, check=False))
    with _stream(port, config, memory_bytes, baud, say) as stream:
        say(f"running {target} by {port} …")
        outputs, result = run_image(image, inputs, SerialDevice(config, stream))
    report = Report(
        name=target,
        config=config,
        shape=text,
        device="board" if port != SIMULATED else "simulated board",
        macs=int(image.info["macs"]),
        comparison=compare(expected, outputs),
    )
    report.add(result)
    return report


@contextmanager
def _stream(
    port: str, config: NpuConfig, memory_bytes: int, baud: int, say: Say
) -> Iterator[Stream]:
    if port == SIMULATED:
        with SimulatedBoard(config, memory_bytes, say) as board:
            yield board
        return
    try:
        import serial
    except ImportError:
        raise LineError("a serial port needs pyserial: pip install pyserial") from None
    try:
        line = serial.Serial(port, baud, timeout=TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise LineError(f"--port {port}: {error}") from None
    with line:
        yield line
