"""States of the RTL in sampled cycles, from the waves that the simulator wrote of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sw.energy.errors import EnergyError

Words = npt.NDArray[np.uint64]

CYCLE_TIME = 10
"""Units of time of a cycle in rtl/systola_sim.sv."""
_CYCLE, _RUNNING = "systola_sim.events.cycle", "systola_sim.events.running"


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Windows of cycles that follow each other.

    cycle: of the run, in which each window ends. bits: of each wanted signal, words of shape
    [cycles of a window, bits, words]; bit w % 64 of word w // 64 is window w.
    """

    cycle: npt.NDArray[np.int64]
    bits: Mapping[str, Words]

    @property
    def windows(self) -> int:
        return len(self.cycle)

    @property
    def words(self) -> int:
        return -(-self.windows // 64)


@dataclass(slots=True)
class _Changes:
    """A signal's values, and in which dump each came."""

    width: int
    at: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)


def read_states(path: Path, wanted: set[str], size: int) -> States:
    """The complete windows of `size` cycles within the run. Signals that there are not are left
    out. `EnergyError` if the run has no window."""
    names, times = _parse(path, {*wanted, _CYCLE, _RUNNING})
    for name in (_CYCLE, _RUNNING):
        if name not in names:
            raise EnergyError(f"waves {path}: signal {name} is not in them")
    starts = _windows(np.array(times, np.int64), size)
    inside = starts[:, None] + np.arange(size)
    running = _filled(names[_RUNNING], len(times))[:, 0]
    inside = inside[running[inside].all(1)] if len(inside) else inside
    if not len(inside):
        raise EnergyError("the run is shorter than the distance of two samples; take more samples")
    cycle = _number(_filled(names[_CYCLE], len(times)))[inside[:, -1]]
    bits = {
        name: _packed(_filled(names[name], len(times)), inside) for name in wanted & names.keys()
    }
    return States(cycle=cycle, bits=bits)


def _windows(times: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Where in `times` the windows begin."""
    breaks = np.flatnonzero(np.diff(times) != CYCLE_TIME) + 1
    starts = np.concatenate([[0], breaks])[: len(times)]
    lengths = np.diff(np.append(starts, len(times)))
    return starts[lengths >= size]


def _parse(path: Path, wanted: set[str]) -> tuple[dict[str, _Changes], list[int]]:
    """Changes of the wanted signals by name, and the times of all dumps."""
    by_code: dict[bytes, _Changes] = {}
    names: dict[str, _Changes] = {}
    times: list[int] = []
    with path.open("rb") as file:
        scopes: list[str] = []
        for line in file:
            words = line.split()
            if not words:
                continue
            if words[0] == b"$scope":
                scopes.append(words[2].decode())
            elif words[0] == b"$upscope":
                scopes.pop()
            elif words[0] == b"$var":
                name = ".".join([*scopes, words[4].decode().lstrip("\\")])
                if name in wanted:
                    names[name] = by_code.setdefault(words[3], _Changes(int(words[2])))
            elif words[0] == b"$enddefinitions":
                break
        dump = -1
        for line in file:
            first = line[0]
            if first == 98:  # b0101 code
                value, code = line[1:].split()
                found = by_code.get(code)
                if found is not None:
                    found.at.append(dump)
                    found.values.append(int(value, 2))
            elif first == 35:  # #time
                times.append(int(line[1:]))
                dump += 1
            elif first in b"01":
                found = by_code.get(line[1:].rstrip())
                if found is not None:
                    found.at.append(dump)
                    found.values.append(first - 48)
    return names, times


def _filled(changes: _Changes, dumps: int) -> npt.NDArray[np.uint8]:
    """[dumps, bits]: the value at every dump, 0 before the first one."""
    size = -(-changes.width // 8)
    joined = b"".join(value.to_bytes(size, "little") for value in changes.values)
    rows = np.frombuffer(joined, np.uint8).reshape(len(changes.values), size)
    bits = np.unpackbits(rows, axis=1, bitorder="little", count=changes.width)
    bits = np.concatenate([np.zeros((1, changes.width), np.uint8), bits])
    at = np.maximum(np.array([-1, *changes.at], np.int64), 0)
    counts = np.diff(np.append(at, dumps))
    filled: npt.NDArray[np.uint8] = np.repeat(bits, counts, axis=0)
    return filled


def _number(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    weights = np.int64(1) << np.arange(bits.shape[1], dtype=np.int64)
    return bits @ weights


def _packed(bits: npt.NDArray[np.uint8], inside: npt.NDArray[np.int64]) -> Words:
    """[cycles of a window, bits, words] of [dumps, bits]."""
    windows, size = inside.shape
    words = -(-windows // 64)
    chosen = bits[inside].transpose(1, 2, 0)
    padded = np.zeros((size, bits.shape[1], words * 64), np.uint8)
    padded[:, :, :windows] = chosen
    return np.packbits(padded, axis=2, bitorder="little").view("<u8")
