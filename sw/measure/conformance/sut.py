"""The NPU as the system under test of `tosa_verif_run_tests --sut-module`.

The runner makes a `TosaSUTRunner` per test in one process; the device lives in this module, so that
one simulation serves them all. Arguments (`--sut-module-args`): `device=`, `config=`, and
`journal=`, a file that gets a line of JSON when a test begins and when it ends.
"""

import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from runner.tosa_test_runner import TosaTestRunner

from spec.config import preset
from spec.errors import SystolaError
from sw.measure.conformance.execute import (
    Executed,
    RejectedError,
    UnsupportedError,
    execute,
    read_graph,
)
from sw.runtime.device import Device

_Result = TosaTestRunner.TosaGraphResult


@lru_cache(maxsize=1)
def _device(kind: str, config: str) -> Device:
    """The device of this process; it ends with it."""
    if kind == "golden":
        from sw.runtime.golden import GoldenDevice

        return GoldenDevice(preset(config))
    from sw.runtime.rtl import RtlDevice

    return RtlDevice(preset(config))


class TosaSUTRunner(TosaTestRunner):
    """One test. The name is the runner's."""

    def __init__(self, args: Any, runner_args: list[str], test_dir: Path) -> None:
        super().__init__(args, runner_args, test_dir)
        self._options = dict(text.partition("=")[::2] for text in runner_args)

    def runTestGraph(self) -> tuple[Any, str]:
        """(what became of the graph, why); results lie in the test's folder."""
        self._note("begin")
        start = time.perf_counter()
        cycles = instructions = 0
        try:
            done = self._execute()
            cycles, instructions = done.result.cycles or 0, done.instructions
            ended = _Result.TOSA_VALID, ""
        except RejectedError as error:
            ended = _Result.TOSA_ERROR, f"rejected: {error}"
        except UnsupportedError as error:
            ended = _Result.OTHER_ERROR, f"unsupported: {error}"
        except SystolaError as error:
            ended = _Result.OTHER_ERROR, f"{type(error).__name__}: {error}"
        seconds = round(time.perf_counter() - start, 3)
        self._note("end", seconds=seconds, cycles=cycles, instructions=instructions)
        return ended

    def _execute(self) -> Executed:
        folder, description = Path(self.testDir), self.testDesc
        graph = read_graph(folder / description["tosa_file"])
        arrays = [np.load(folder / name) for name in description["ifm_file"]]
        device = _device(self._options["device"], self._options["config"])
        done = execute(graph, description["ifm_name"], arrays, device)
        for name, output in zip(description["ofm_file"], done.outputs, strict=True):
            np.save(folder / name, output)
        return done

    def _note(self, event: str, **figures: float) -> None:
        with Path(self._options["journal"]).open("a") as file:
            file.write(json.dumps({"event": event, "test": self.testName, **figures}) + "\n")
