"""`python -I -S guard.py FD COMMAND…`: COMMAND, which ends with whoever holds the other end of FD.

COMMAND leads a process group of its own. When it ends, when this guard is told to end, or when the
pipe FD reaches its end because the process that holds the other side is gone (however it died),
everything left in that group is killed. Exit code: COMMAND's. Standard library only and started
without `site`: it takes milliseconds.
"""

import os
import select
import signal
import sys

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    life, command = int(sys.argv[1]), sys.argv[2:]
    # COMMAND must not inherit the pipe: its children would hold it open.
    os.set_inheritable(life, False)
    heard, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, *_ENDING):
        signal.signal(number, lambda *_: None)
    try:
        child = os.posix_spawnp(
            command[0], command, os.environ, setpgroup=0, setsigdef=(signal.SIGCHLD, *_ENDING)
        )
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    _wait(child, life, heard)
    # A child that has not been waited for keeps its group's number: no other group is hit.
    os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _wait(child: int, life: int, heard: int) -> None:
    """Until the child has ended, the pipe has, or a signal says so."""
    while True:
        ready, _, _ = select.select([life, heard], [], [])
        if life in ready or set(os.read(heard, 64)) & set(_ENDING):
            return
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return


if __name__ == "__main__":
    sys.exit(main())
