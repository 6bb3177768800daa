"""What a LOAD or STORE asks of the bus: words, bursts, and accesses of a DRAM.

LOAD fetches a word once while it is among the last ones (`NpuConfig.load_window`), and collects
the words of short runs for a request (`hw_gen/blocks/load_requests.py`). STORE writes every run by
itself (`hw_gen/blocks/dma_bursts.py`). Both are followed run by run.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Self

from spec.config import NpuConfig
from spec.isa import Space
from sw.compiler.machine.costs import MERGED_WORDS
from sw.compiler.program.dram.addresses import REGION_SHIFT
from sw.compiler.program.dram.paths import BLOCK_BYTES, Path
from sw.compiler.program.records import Load, Store
from sw.compiler.program.virtual import VirtualInstruction

STRETCHES, STRETCH, BEFORE = 6, 24, 6
"""Runs that are followed where there are many, and those before each stretch that do not count: the
words that they brought. All that is counted is in proportion to those that do."""


NO_PATH = Path(0, 0)


class Transfer(NamedTuple):
    """words: that pass the bus. bursts: requests. blocks: of `BLOCK_BYTES` in the memory, each
    counted once as long as no other comes between. pieces: accesses on chip. touched: of a STORE,
    the numbers of its blocks in order, each once. path: where they are.
    """

    words: float
    bursts: float
    blocks: float
    pieces: float
    touched: Sequence[int] = ()
    path: Path = NO_PATH


class _Port(NamedTuple):
    """How the NPU asks memory: bytes of a bus word, words of the longest burst, words kept."""

    bus: int
    burst: int
    window: int

    @classmethod
    def of(cls, config: NpuConfig) -> Self:
        return cls(config.bus_bytes, config.max_burst, config.load_window)


NOTHING = Transfer(0.0, 0.0, 0.0, 0.0)


def transfer(instruction: VirtualInstruction, steps: int, config: NpuConfig) -> Transfer:
    """Of a LOAD or STORE of so many runs."""
    record = instruction.record
    assert isinstance(record, Load | Store)
    if isinstance(record, Load) and record.fill:
        unit = config.word_bytes if record.space is Space.SPAD else config.bus_bytes
        return Transfer(0.0, 0.0, 0.0, float(steps * math.ceil(record.run / unit)))
    buffer = instruction.bases.get("mem_base")
    base = record.mem_base + (max(0, buffer.address) if buffer is not None else 0)
    loops = tuple((n.count, n.mem) for n in record.loop if n.count > 1)
    page = max(BLOCK_BYTES, config.max_burst * config.bus_bytes)
    merges = isinstance(record, Load) and not record.indexed
    # Indices may lead anywhere.
    loops = ((steps, page + BLOCK_BYTES),) if record.indexed else loops
    runs, words, bursts, blocks = _followed(
        record.run, loops, base % page, _Port.of(config), merges
    )
    pieces = float(math.ceil(record.run / config.bus_bytes) * steps)
    part = steps / runs
    if not isinstance(record, Load) or record.space is not Space.SPAD:
        pieces = words * part
    place = (buffer.region << REGION_SHIFT if buffer is not None else 0) + base
    touched: Sequence[int] = ()
    if isinstance(record, Store):
        touched = _touched(record.run, loops, place, blocks * part)
    return Transfer(
        max(1.0, words * part),
        max(1.0, bursts * part),
        blocks * part,
        pieces,
        touched,
        Path.of(place, record.run, loops),
    )


MOST_TOUCHED = 1024
"""Blocks that are told one by one; of more, as many behind the first one stand for them."""


def _touched(
    run: int, loops: tuple[tuple[int, int], ...], base: int, blocks: float
) -> Sequence[int]:
    """The blocks of runs, in order."""
    total = math.prod(count for count, _ in loops)
    if max(blocks, total / 4) > MOST_TOUCHED:
        first = base // BLOCK_BYTES
        return range(first, first + math.ceil(blocks))
    found: dict[int, None] = {}
    for number in range(total):
        address = _address(base, loops, number)
        found.update(
            dict.fromkeys(range(address // BLOCK_BYTES, (address + run - 1) // BLOCK_BYTES + 1))
        )
    return tuple(found)


@lru_cache(maxsize=4096)
def _followed(
    run: int, loops: tuple[tuple[int, int], ...], base: int, port: _Port, merges: bool
) -> tuple[int, int, int, int]:
    """(runs, words, bursts, blocks) of the runs that are followed."""
    bus, burst, window = port
    page, short = burst * bus, run <= window * bus
    runs = words = bursts = blocks = 0
    for stretch in _stretches(base, loops):
        newest, kept, held, block = -2, 0, 0, -1
        for counted, address in stretch:
            runs += counted
            first, last = address // bus, (address + run - 1) // bus
            near = merges and 0 <= newest - first < kept
            have = newest - first + 1 if near else 0
            missing = last - first + 1 - have
            if short and missing <= 0:
                continue
            joined = near or (merges and kept > 0 and first == newest + 1)
            begin = newest + 1 if near else first
            grows = joined and short and held and held + missing <= MERGED_WORDS
            if grows and (newest + 1) % burst:
                held += missing
            else:
                bursts += counted * ((last * bus) // page - (begin * bus) // page + 1)
                held = min(missing, MERGED_WORDS)
            kept = min(window, (kept if joined else 0) + missing) if short else window
            newest = last
            low, high = begin * bus // BLOCK_BYTES, (last * bus + bus - 1) // BLOCK_BYTES
            words += counted * missing
            blocks += counted * (high - low + (low != block))
            block = high
    return runs, words, bursts, blocks


Stretch = list[tuple[int, int]]


def _stretches(base: int, loops: tuple[tuple[int, int], ...]) -> Iterator[Stretch]:
    """Runs in order as (counted or not, address): all of them if they are few, else stretches from
    all over the loops, each behind some that do not count.
    """
    total = math.prod(count for count, _ in loops)
    if total <= STRETCHES * (STRETCH + BEFORE):
        yield [(1, _address(base, loops, run)) for run in range(total)]
        return
    for number in range(STRETCHES):
        begin = BEFORE + (total - STRETCH - BEFORE) * number // (STRETCHES - 1)
        where = range(begin - BEFORE, begin + STRETCH)
        yield [(int(run >= begin), _address(base, loops, run)) for run in where]


def _address(base: int, loops: tuple[tuple[int, int], ...], run: int) -> int:
    """Where a run begins."""
    for count, by in reversed(loops):
        run, index = divmod(run, count)
        base += index * by
    return base
