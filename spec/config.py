"""`NpuConfig`: every parameter of a generated NPU, checked where it is born."""

import dataclasses
import functools
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from spec.banks import bank_of
from spec.errors import SystolaError
from spec.names import did_you_mean


class ConfigError(SystolaError, ValueError):
    """An illegal configuration; the message names the field, its value and the rule."""


PARAM_PARTS = {"bias": 4, "multiplier": 4, "shift": 1}
"""Parts of a parameter entry, one after the other: bytes of a lane's signed integer."""


PAIR_TAPS, PAIR_STRIDE = 3, 2
"""Kernel columns and column stride of a DEPTHWISE that reads two columns of the input at once."""


TILE = 2
"""Rows, and columns, of processing elements that a wavefront passes in one cycle."""


def cycles_through(rows: int, cols: int) -> int:
    """Cycles from an activation vector that enters an array to its sums."""
    return -(-rows // TILE) + -(-cols // TILE) + 1


def _is_pow2(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def _ceil_pow2(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _bits_for(n: int) -> int:
    """Bits that index `n` things (at least one)."""
    return max(1, (n - 1).bit_length())


def _nearest_acc_kib(acc_kib: int, cols: int) -> list[int]:
    """The legal sizes next to `acc_kib`, below and above, as far as there are any."""
    sizes = [vectors * cols * 4 for vectors in (1 << k for k in range(2, 23))]
    legal = [n // 1024 for n in sizes if n % 1024 == 0 and n // 1024 <= 4096]
    below = [kib for kib in legal if kib < acc_kib][-1:]
    return below + [kib for kib in legal if kib > acc_kib][:1]


@dataclass(frozen=True, kw_only=True)
class NpuConfig:
    """One hardware configuration. Sizes in KiB or entries, widths in bytes or bits.

    `rows` is the array's input (reduction) dimension, `cols` its output dimension and the
    elements of a vector. `depthwise`: whether there is a depthwise engine, `taps` how many
    kernel columns each of its lanes multiplies in a cycle, `depthwise_columns` how many columns of
    the input it reads in one: two serve kernels of three columns and stride 2, from three taps on.
    `transposed_weights`: whether weights can also enter the array from its left edge, column by
    column. `weight_rows`: rows of weights (or such columns) that enter the array in a cycle.
    `indexed_dma`: whether LOAD and STORE can add an index to an address. `lane_reductions`,
    `table_int16`, `shifts`: whether the vector engine reduces across lanes, interpolates tables of
    int16, and shifts by a tensor (`spec.optional` says which instructions need what).
    `vector_contexts`: how many VECTOR instructions may be under way behind the issue of their
    steps. `vector_lanes`: lanes of the vector engine, a divisor of `cols`; 0 stands for one a
    column. `regions`: regions of memory that LOAD and STORE can address, of which compiled programs
    use four.
    `engine_counters`: whether the NPU counts what each engine does; without them they read as 0.
    `program_loops`: whether fetch can run a section of the program again (REPEAT). `load_window`:
    bus words that LOAD keeps, so that later runs need not fetch them again.
    `name` is a label: it is not part of `digest()`.
    """

    # A new field needs: its range in `_RANGES` below or a rule in `__post_init__`, its sentence in
    # `MEANING` (sw/measure/pages/configuration.py), rows in tests/test_spec_config.py, `make docs`;
    # and, where it is a function that hardware may lack, a row in spec/optional.py.
    name: str = "custom"
    rows: int = 16
    cols: int = 16
    spad_kib: int = 256
    acc_kib: int = 64
    bus_bytes: int = 16
    banks: int = 8
    param_entries: int = 64
    table_entries: int = 513
    semaphores: int = 32
    sem_bits: int = 8
    queue_depth: int = 8
    outstanding: int = 128
    max_burst: int = 16
    axi_addr_bits: int = 40
    depthwise: bool = True
    taps: int = 3
    depthwise_columns: int = 1
    transposed_weights: bool = True
    weight_rows: int = 1
    indexed_dma: bool = True
    lane_reductions: bool = True
    table_int16: bool = True
    shifts: bool = True
    vector_contexts: int = 4
    vector_lanes: int = 0
    regions: int = 8
    engine_counters: bool = True
    program_loops: bool = True
    load_window: int = 4
    wide_operands: bool = False

    def __post_init__(self) -> None:
        self._check_fields()
        self._check_memories()
        if self.vector_lanes and self.cols % self.vector_lanes:
            legal = [str(n) for n in range(1, self.cols + 1) if self.cols % n == 0]
            raise ConfigError(
                f"vector_lanes={self.vector_lanes}: must divide cols={self.cols} "
                f"({', '.join(legal)}), or be 0 for a lane in each column"
            )
        if self.weight_rows > self.rows:
            raise ConfigError(
                f"weight_rows={self.weight_rows}: must be at most rows={self.rows}; "
                f"use weight_rows<={1 << self.rows.bit_length() - 1}"
            )
        if self.wide_operands:
            raise ConfigError(
                "wide_operands=True: this release's generator has no such hardware yet"
            )

    def _check_fields(self) -> None:
        """Each field by itself: its type, its range, whether it is a power of two."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int and (type(value) is not int):
                raise ConfigError(f"{field.name}={value!r}: must be a whole number")
            if field.type is str and type(value) is not str:
                raise ConfigError(f"{field.name}={value!r}: must be a text")
            if field.type is bool and type(value) is not bool:
                raise ConfigError(f"{field.name}={value!r}: must be true or false")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name}={value}: must lie in {low}…{high}")
        for name in (
            "bus_bytes",
            "banks",
            "queue_depth",
            "outstanding",
            "max_burst",
            "weight_rows",
            "vector_contexts",
            "load_window",
        ):
            value = getattr(self, name)
            if not _is_pow2(value):
                raise ConfigError(f"{name}={value}: must be a power of two")

    def _check_memories(self) -> None:
        if self.max_burst * self.bus_bytes > 4096:
            raise ConfigError(
                f"max_burst={self.max_burst}: times bus_bytes={self.bus_bytes} exceeds the 4096 "
                f"bytes that an AXI burst may span; use max_burst<={4096 // self.bus_bytes}"
            )
        if self.spad_bytes % (self.banks * self.word_bytes):
            raise ConfigError(
                f"spad_kib={self.spad_kib}: must fill {self.banks} banks of "
                f"{self.word_bytes}-byte words"
            )
        if not _is_pow2(self.spad_bytes // self.word_bytes):
            raise ConfigError(f"spad_kib={self.spad_kib}: must be a power of two")
        vectors, rest = divmod(self.acc_kib * 1024, self.cols * 4)
        if rest or not _is_pow2(vectors) or vectors < 4:
            legal = [f"acc_kib={kib}" for kib in _nearest_acc_kib(self.acc_kib, self.cols)]
            raise ConfigError(
                f"acc_kib={self.acc_kib}: must hold a power of two (4 or more) of "
                f"{self.cols * 4}-byte vectors (cols={self.cols}); {' or '.join(legal)} does"
            )

    # Derived sizes and widths -------------------------------------------------------------

    @property
    def pes(self) -> int:
        """Processing elements, which is multiply-accumulates per cycle."""
        return self.rows * self.cols

    @property
    def cycles_through_array(self) -> int:
        """Cycles from an activation vector that enters the array to its sums."""
        return cycles_through(self.rows, self.cols)

    @property
    def depthwise_pairs(self) -> bool:
        """Whether the depthwise engine reads columns in pairs; fewer taps have no use for them."""
        return self.depthwise and self.depthwise_columns > 1 and self.taps >= PAIR_TAPS

    @property
    def lane_count(self) -> int:
        """Lanes of the vector engine."""
        return self.vector_lanes or self.cols

    @property
    def vector_parts(self) -> int:
        """Parts in which a whole vector passes the lanes, one a cycle."""
        return self.cols // self.lane_count

    @property
    def spad_bytes(self) -> int:
        return self.spad_kib * 1024

    @property
    def word_bytes(self) -> int:
        """Bytes of one scratchpad bank word, the widest single access."""
        return _ceil_pow2(max(self.rows, self.cols, self.bus_bytes))

    @property
    def words_in_flight(self) -> int:
        """Bus words that LOAD has asked for beyond which it asks for no more. Memory answers in
        order, so that the program, and who waits for it, would stand behind them.
        """
        return min(self.outstanding * self.max_burst, max(512, 4 * self.outstanding))

    @property
    def spad_words(self) -> int:
        return self.spad_bytes // self.word_bytes

    @property
    def bank_depth(self) -> int:
        return self.spad_words // self.banks

    @property
    def acc_vectors(self) -> int:
        """Accumulator vectors of `cols` int32, both halves together."""
        return self.acc_kib * 1024 // (self.cols * 4)

    @property
    def acc_half(self) -> int:
        """Vectors in one accumulator half; vector v lies in half v // acc_half."""
        return self.acc_vectors // 2

    @property
    def acc_bank(self) -> int:
        """Vectors in one of the accumulator's four banks; vector v lies in bank v // acc_bank.

        A bank serves one read and one write a cycle, whoever asks.
        """
        return self.acc_vectors // 4

    @property
    def param_entry_bytes(self) -> int:
        """Bytes of a parameter entry: the parts of `PARAM_PARTS`, padded to bus words."""
        parts = sum(PARAM_PARTS.values()) * self.cols
        return -(-parts // self.bus_bytes) * self.bus_bytes

    def param_offset(self, part: str) -> int:
        """Byte offset of a part in a parameter entry."""
        names = list(PARAM_PARTS)
        before = names[: names.index(part)]
        return sum(PARAM_PARTS[name] for name in before) * self.cols

    @property
    def param_bytes(self) -> int:
        return self.param_entries * self.param_entry_bytes

    @property
    def table_bytes(self) -> int:
        """Bytes of TABLE: `table_entries` int16 (512 steps and the end of the last one), or int8
        alone.
        """
        return 2 * self.table_entries if self.table_int16 else 256

    @property
    def spad_addr_bits(self) -> int:
        return _bits_for(self.spad_bytes)

    @property
    def acc_addr_bits(self) -> int:
        return _bits_for(self.acc_vectors)

    @property
    def param_addr_bits(self) -> int:
        return _bits_for(self.param_entries)

    @property
    def sem_addr_bits(self) -> int:
        return _bits_for(self.semaphores)

    def bank_of(self, word: int) -> int:
        """Bank of scratchpad word `word`, for the compiler (hardware: blocks/spad_request.py)."""
        return bank_of(word, self.banks)

    # Identity -----------------------------------------------------------------------------

    def to_dict(self) -> dict[str, int | bool | str]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def digest(self) -> int:
        """64-bit digest of every field but `name`; equal hardware has equal digests.

        A field of `_LATER` counts only where it differs from its default, so that it did not
        change the digests of the configurations that were there before it.
        """
        return _digest(self)

    @property
    def digest_hex(self) -> str:
        return f"{self.digest():016x}"

    @property
    def options(self) -> str:
        """Command line options that choose this configuration: `--config tiny --set rows=8`."""
        base = PRESETS.get(self.name.partition("+")[0], PRESETS["default"])
        given = base.to_dict()
        changes = [(k, v) for k, v in self.to_dict().items() if k != "name" and v != given[k]]
        return " ".join([f"--config {base.name}", *(f"--set {k}={v}" for k, v in changes)])

    def with_settings(self, settings: dict[str, str]) -> Self:
        """A copy with fields set from text (`rows=8`); `ConfigError` on unknown names or values."""
        types = {f.name: f.type for f in dataclasses.fields(self)}
        changes: dict[str, int | bool | str] = {}
        for key, text in settings.items():
            if key not in types or key == "name":
                known = [k for k in types if k != "name"]
                raise ConfigError(
                    f"{key}={text}: no such configuration field{did_you_mean(key, known)}; "
                    f"fields are {', '.join(known)}"
                )
            changes[key] = _parse(key, text, types[key])
        if not changes:
            return self
        if "name" not in changes:
            changes["name"] = "+".join([self.name, *(f"{k}={v}" for k, v in settings.items())])
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def _parse(key: str, text: str, kind: object) -> int | bool:
    if kind is bool:
        if text.lower() in ("1", "true", "yes"):
            return True
        if text.lower() in ("0", "false", "no"):
            return False
        raise ConfigError(f"{key}={text}: must be true or false")
    # Digits of ASCII only: int() takes those of every script, and the text becomes the name.
    if not re.fullmatch(r"-?(0x[0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,18})", text):
        raise ConfigError(f"{key}={text[:60]}: must be a whole number")
    return int(text, 0)


_LATER = (
    "indexed_dma",
    "lane_reductions",
    "table_int16",
    "shifts",
    "vector_contexts",
    "vector_lanes",
    "regions",
    "engine_counters",
    "weight_rows",
    "program_loops",
    "load_window",
    "depthwise_columns",
)
"""Fields that configurations did not always have."""

_RANGES = (
    ("rows", 2, 128),
    ("cols", 2, 128),
    ("spad_kib", 4, 8192),
    ("acc_kib", 1, 4096),
    ("bus_bytes", 8, 64),
    ("banks", 4, 16),
    ("param_entries", 4, 4096),
    ("table_entries", 513, 513),
    ("semaphores", 20, 64),
    ("sem_bits", 8, 16),
    ("queue_depth", 2, 32),
    ("taps", 1, 8),
    ("depthwise_columns", 1, 2),
    ("outstanding", 8, 512),
    ("max_burst", 1, 256),
    ("axi_addr_bits", 32, 64),
    ("weight_rows", 1, 8),
    ("vector_contexts", 1, 8),
    ("vector_lanes", 0, 128),
    ("regions", 4, 8),
    ("load_window", 2, 4),
)


@functools.lru_cache(maxsize=4096)
def _digest(config: NpuConfig) -> int:
    """Of the fields that count; a campaign asks for it thousands of times."""
    usual = {f.name: f.default for f in dataclasses.fields(config) if f.name in _LATER}
    values = config.to_dict()
    if config.vector_lanes == config.cols:
        values["vector_lanes"] = 0
    fields = {k: v for k, v in values.items() if k != "name" and (k, v) not in usual.items()}
    text = json.dumps(fields, sort_keys=True).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


PRESETS: dict[str, NpuConfig] = {
    c.name: c
    for c in (
        NpuConfig(
            name="micro",
            rows=4,
            cols=4,
            spad_kib=16,
            acc_kib=4,
            bus_bytes=8,
            banks=4,
            queue_depth=4,
            outstanding=8,
            axi_addr_bits=32,
            depthwise=False,
            transposed_weights=False,
            indexed_dma=False,
            lane_reductions=False,
            table_int16=False,
            shifts=False,
            vector_contexts=1,
            vector_lanes=1,
            regions=4,
            engine_counters=False,
            program_loops=False,
            load_window=2,
            semaphores=20,
        ),
        NpuConfig(name="tiny", rows=4, cols=4, spad_kib=16, acc_kib=4, bus_bytes=8, outstanding=32),
        NpuConfig(name="small", rows=8, cols=8, spad_kib=64, acc_kib=16, depthwise_columns=2),
        NpuConfig(name="default", weight_rows=2, depthwise_columns=2),
        NpuConfig(
            name="large",
            rows=32,
            cols=32,
            spad_kib=1024,
            acc_kib=256,
            bus_bytes=32,
            depthwise_columns=2,
        ),
        # Few vectors meet each fold of a large array: weights and activations take turns at banks.
        NpuConfig(
            name="huge",
            rows=64,
            cols=64,
            spad_kib=4096,
            acc_kib=1024,
            bus_bytes=64,
            banks=16,
            depthwise_columns=2,
        ),
        NpuConfig(
            name="giant",
            rows=128,
            cols=128,
            spad_kib=8192,
            acc_kib=4096,
            bus_bytes=64,
            banks=16,
            weight_rows=2,
            depthwise_columns=2,
        ),
        NpuConfig(name="rect", rows=8, cols=16, spad_kib=128, acc_kib=32),
        NpuConfig(name="odd", rows=12, cols=12, spad_kib=128, acc_kib=24),
    )
}


def preset(name: str) -> NpuConfig:
    """The preset called `name`; `ConfigError` lists the known ones."""
    try:
        return PRESETS[name]
    except KeyError:
        known = ", ".join(PRESETS)
        near = did_you_mean(name, PRESETS)
        raise ConfigError(f"config {name!r}: no such preset{near}; presets are {known}") from None


def parse_settings(items: Iterable[str]) -> dict[str, str]:
    """`["rows=8"]` as `{"rows": "8"}`; `ConfigError` on anything that is not name=value."""
    settings = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"--set {item}: must be of the form name=value, e.g. --set rows=8")
        settings[key] = value
    return settings
