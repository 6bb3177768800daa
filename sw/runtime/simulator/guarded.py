"""Programs that do not outlive this process, with everything that they start."""

import contextlib
import os
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_GUARD = Path(__file__).with_name("guard.py")
_PATIENCE_S = 10.0


class Guarded:
    """`command` in a process group that dies with this process, even if that is by SIGKILL.

    A pipe does it: its only write end is here, and the kernel closes it with this process
    (see guard.py). Ctrl-C does not reach the group. `options` as for `subprocess.Popen`.
    """

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int] = (), **options: Any
    ) -> None:
        read, write = os.pipe()
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), str(read), *command],
                pass_fds=(read, *pass_fds),
                start_new_session=True,
                **options,
            )
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        self._finalizer = weakref.finalize(self, _end, self.process, write)

    def wait(self, timeout: float | None = None) -> int:
        """Exit code, once it ended by itself; `subprocess.TimeoutExpired` after `timeout` s."""
        code = self.process.wait(timeout)
        self.kill()
        return code

    def kill(self) -> None:
        """End the group at once and wait for its end. Twice does no harm."""
        self._finalizer()


def run_guarded(command: Sequence[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a guarded command to its end: its exit code and what it printed, errors among it.

    `options` as for `subprocess.Popen`, without those of its streams.
    """
    guarded = Guarded(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )
    try:
        assert guarded.process.stdout is not None
        printed = guarded.process.stdout.read().decode(errors="replace")
        code = guarded.wait()
    finally:
        guarded.kill()
    return subprocess.CompletedProcess(list(command), code, printed)


def _end(process: "subprocess.Popen[bytes]", write: int) -> None:
    os.close(write)
    try:
        process.wait(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        # A guard that was stopped does not see the pipe.
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
