"""One running simulator: starts it, talks to the cocotb test inside, ends it."""

import contextlib
import json
import socket
import subprocess
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sw.runtime.scratch import Scratch
from sw.runtime.simulator.cocotb_env import check_results, cocotb_environment
from sw.runtime.simulator.control import SharedMemory
from sw.runtime.simulator.errors import SimulationError

TEST_MODULE = "cocotb_tests.harness.server"
SOCKET_VARIABLE = "SYSTOLA_SOCKET"
_NO_PLUGINS = {"COCOTB_REWRITE_ASSERTION_FILES": ""}
"""The server asserts nothing. Else cocotb loads all plugins of pytest: a second and more."""


class SimulatorProcess:
    """The simulator `program` with a memory at `base`, alive until `close()`.

    waves: VCD file to write (builds that have them). windows: (period, size, seed) of the cycles
    in it, else all. events: file for the record of what the engines do. top: its module with the
    register port. The process dies with its parent, however that ends: it watches its parent while
    it simulates, and the socket while it waits.
    """

    def __init__(
        self,
        program: Path,
        base: int,
        waves: Path | None = None,
        events: Path | None = None,
        windows: tuple[int, int, int] | None = None,
        *,
        top: str = "systola_sim",
    ) -> None:
        self._folder = Scratch("simulator")
        folder = self._folder.path
        self.memory = SharedMemory(folder, base)
        self.log_path = folder / "simulator.log"
        self._results = folder / "results.xml"
        ours, theirs = socket.socketpair()
        command = [str(program)]
        if waves is not None:
            command += ["--trace", str(waves)]
        if windows is not None:
            command += ["--trace-windows", ",".join(map(str, windows))]
        command += [f"+memory={self.memory.memory_path}", f"+control={self.memory.control_path}"]
        if events is not None:
            command.append(f"+events={events}")
        try:
            with self.log_path.open("wb") as log, theirs:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    env={
                        **cocotb_environment(top, TEST_MODULE, self._results),
                        **_NO_PLUGINS,
                        SOCKET_VARIABLE: str(theirs.fileno()),
                    },
                    pass_fds=(theirs.fileno(),),
                    # Ctrl-C is for this process, which then ends the simulator in order.
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            self._folder.close()
            raise SimulationError(
                f"the simulator {program} cannot be started: {error.strerror or error}; "
                "`systola cache clear` makes the next run build it again"
            ) from None
        self._socket = ours
        self._stream = ours.makefile("rw", encoding="utf-8")
        self._finalizer = weakref.finalize(self, _kill, self._process, ours, self._folder)

    @property
    def pid(self) -> int:
        return self._process.pid

    def write(self, registers: Sequence[tuple[int, int]]) -> None:
        """Write 32-bit values to register offsets, in order."""
        self._ask(op="write", registers=list(registers))

    def read(self, registers: Sequence[int]) -> list[int]:
        values: list[int] = self._ask(op="read", registers=list(registers))["values"]
        return values

    def reset(self) -> None:
        """Hardware reset of NPU and memory."""
        self._ask(op="reset", cycles=4)

    def run(self, offset: int, value: int, limit: int) -> tuple[bool, float]:
        """Write the register and wait for the interrupt, at most `limit` cycles.

        Returns whether it came and the seconds that this took.
        """
        answer = self._ask(op="run", start=[offset, value], cycles=limit)
        return answer["irq"], answer["wall_s"]

    def close(self) -> None:
        """End the simulation in order; `SimulationError` if its test did not run or failed."""
        if not self._finalizer.alive:
            return
        try:
            with contextlib.suppress(OSError):
                self._stream.write('{"op": "exit"}\n')
                self._stream.flush()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                raise SimulationError(f"the simulator does not end\n{self._tail()}") from None
            self._check_results()
        finally:
            self.kill()

    def kill(self) -> None:
        """End the simulator at once."""
        self._finalizer()

    def _check_results(self) -> None:
        problem = check_results(self._results, self._process.returncode)
        if problem:
            raise SimulationError(f"the simulation's cocotb test failed: {problem}\n{self._tail()}")

    def _ask(self, **command: Any) -> dict[str, Any]:
        if not self._finalizer.alive:
            raise SimulationError("the simulator is closed; open the device again")
        try:
            self._stream.write(json.dumps(command) + "\n")
            self._stream.flush()
            line = self._stream.readline()
        except OSError:
            line = ""
        except BaseException:
            # Interrupted between question and answer: the two would be out of step.
            self.kill()
            raise
        if not line:
            self._died()
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise SimulationError(f"register access failed: {answer['error']}")
        return answer

    def _died(self) -> None:
        try:
            code: int | str = self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            code = "none: it hangs"
        tail = self._tail()
        self.kill()
        raise SimulationError(f"the simulator ended unexpectedly (exit code {code})\n{tail}")

    def _tail(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log_path.read_text(errors="replace").splitlines()
            return "\n".join(["last lines of its log:", *lines[-25:]])
        return "it left no log"


def _kill(
    process: "subprocess.Popen[bytes]",
    connection: socket.socket,
    folder: Scratch,
) -> None:
    process.kill()
    process.wait()
    connection.close()
    folder.close()
