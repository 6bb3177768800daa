"""`python -m sw.synth.worker SCRIPT`: runs a Yosys script with pyosys, in a process of its own.

The native library writes to stdout, keeps its design in memory and ends the process when it
fails: nothing of that belongs into the command line's process.
"""

import sys
from pathlib import Path


def main(path: str) -> None:
    """Run the commands of the script at `path`, one a line."""
    from pyosys import libyosys

    design = libyosys.Design()
    for line in Path(path).read_text().splitlines():
        if line.strip():
            libyosys.run_pass(line.strip(), design)


if __name__ == "__main__":
    main(sys.argv[1])
