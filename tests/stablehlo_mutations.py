"""Damaged copies of a StableHLO FILE, each read in a fork: `tests/stablehlo_mutations.py FILE`.

Prints how many ended how: read, an error with its reason, or the parser's own end.
"""

import argparse
import os
import random
import sys
from collections import Counter
from pathlib import Path

from sw.frontends.stablehlo.errors import StableHloError
from sw.frontends.stablehlo.reading import read


def mutated(data: bytes, count: int, seed: int) -> list[bytes]:
    """Copies that are cut off, or have bytes changed, moved or left out."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(copy))
            kind = rng.randrange(4)
            if kind == 0:
                copy[at] = rng.randrange(256)
            elif kind == 1:
                del copy[at : at + rng.randrange(1, 9)]
            elif kind == 2:
                copy[at:at] = copy[at : at + 8]
            else:
                del copy[max(at, 8) :]
            copy = copy or bytearray(b" ")
        found.append(bytes(copy))
    return found


def ended(data: bytes) -> str:
    """How reading ends: `read`, `error`, `other error`, or `signal N`."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            read(data)
            code = 0
        except StableHloError:
            code = 1
        except BaseException:
            code = 2
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return ("read", "error", "other error")[os.WEXITSTATUS(status)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    args = parser.parse_args()
    print(args.file, dict(Counter(map(ended, mutated(args.file.read_bytes(), args.count, 7)))))


if __name__ == "__main__":
    main()
