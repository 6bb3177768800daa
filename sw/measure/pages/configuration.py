"""docs/configuration.md: the fields of `NpuConfig`, what they mean, which values are legal."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from spec.config import PRESETS, ConfigError, NpuConfig
from sw.measure.pages.markdown import code, document, heading, prose, table

MEANING = {
    "rows": "rows of the array: its reduction dimension",
    "cols": "columns of the array: its output dimension, and the number of vector lanes",
    "spad_kib": "scratchpad, KiB",
    "acc_kib": "accumulator, KiB of int32 vectors of `cols` lanes",
    "bus_bytes": "width of the AXI4 data bus, bytes",
    "banks": "single-port banks of the scratchpad",
    "param_entries": "entries of the parameter memory: bias, multiplier and shift of every lane",
    "table_entries": "entries of TABLE, int16",
    "semaphores": "number of semaphores",
    "sem_bits": "width of a semaphore's counter, bits",
    "queue_depth": "instructions that wait in the queue of an engine",
    "outstanding": "AXI bursts that the load engine, and the store engine, may have in flight",
    "max_burst": "longest AXI burst, in bus words",
    "axi_addr_bits": "width of the AXI4 address, bits",
    "depthwise": "whether there is a depthwise engine",
    "taps": "kernel columns that a lane of the depthwise engine multiplies in a cycle",
    "depthwise_columns": "columns of the input that the depthwise engine reads in a cycle; two "
    "halve the cycles of kernels of three columns and stride 2",
    "transposed_weights": "whether weights can also enter the array from its left edge",
    "weight_rows": "weight vectors (rows, or transposed columns) that enter the array in a cycle",
    "indexed_dma": "whether LOAD and STORE can add an index from the scratchpad to an address",
    "lane_reductions": "whether the vector engine can reduce across its lanes",
    "table_int16": "whether TABLE can also interpolate between int16",
    "shifts": "whether the vector engine can shift by a tensor, and count leading zeros",
    "vector_contexts": "VECTOR instructions that may have steps in the lanes at once",
    "vector_lanes": "lanes of the vector engine, a divisor of `cols`; 0: one a column",
    "regions": "regions of memory that programs can address; compiled ones use four",
    "engine_counters": "whether it counts what each engine did; if not, they read as 0",
    "program_loops": "fetch runs sections of a program again, so that what repeats is stored once",
    "load_window": "bus words that LOAD keeps, so that later runs need not fetch them again",
    "wide_operands": "reserved for operands wider than 8 bits",
}
"""What each field is."""

BROKEN: tuple[dict[str, Any], ...] = (
    {"rows": 1},
    {"banks": 6},
    {"bus_bytes": 64, "max_burst": 128},
    {"spad_kib": 48},
    {"rows": 128, "spad_kib": 5, "banks": 16},
    {"cols": 12},
    {"rows": 4, "weight_rows": 8},
    {"wide_operands": True},
)
"""One example for each kind of rule."""

_LIMIT = 8192
"""The largest value that any field but a width may have."""


_INTRO = """
A configuration decides everything about one generated NPU: the RTL, what the compiler writes, the
golden model, and the simulator. Take a preset and change fields of it:
"""
_EXAMPLES = """
systola config list
systola sim matmul --config small --set acc_kib=32
make rtl CONFIG=small SET=acc_kib=32
"""
_DIGESTS = """
Equal digests mean equal hardware. Simulators, program images and C headers carry the digest, and
refuse one that is not theirs.
"""
_LEGAL = """
*Legal* lists the values that a field may have while all others are those of `default`; a *fixed*
field has its default in every configuration.
"""
_RULES = """
An illegal configuration is refused with the rule that it breaks. One example of each:
"""


def render() -> str:
    """The page, from `NpuConfig` itself: legal values are those that it accepts."""
    broken = [(" ".join(f"`{k}={v}`" for k, v in s.items()), _message(s)) for s in BROKEN]
    return document(
        "systola pages configuration",
        "spec/config.py",
        heading(1, "Configuration"),
        prose(_INTRO),
        code(_EXAMPLES),
        prose(_DIGESTS),
        heading(2, "Fields"),
        prose(_LEGAL),
        table(("field", "default", "legal", ""), map(_field, _fields())),
        heading(2, "Presets"),
        _presets(),
        heading(2, "Rules"),
        prose(_RULES),
        table(("settings", "message"), broken),
    )


def _fields() -> list["dataclasses.Field[Any]"]:
    return [f for f in dataclasses.fields(NpuConfig) if f.name != "name"]


def _field(field: "dataclasses.Field[Any]") -> list[str]:
    return [f"`{field.name}`", _value(field.default), _legal_values(field), MEANING[field.name]]


def _value(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _legal_values(field: "dataclasses.Field[Any]") -> str:
    tried: Sequence[int | bool] = (True, False) if field.type is bool else range(_LIMIT + 1)
    return _ranges([v for v in tried if not _message({field.name: v})])


def _ranges(values: Sequence[int | bool]) -> str:
    """`2…128` for what is consecutive, `fixed` for one value, a list of the rest."""
    if len(values) == 1:
        return "fixed"
    if all(isinstance(v, bool) for v in values):
        return ", ".join(map(_value, values))
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{values[0]}…{values[-1]}"
    return ", ".join(map(str, values))


def _message(settings: Mapping[str, Any]) -> str:
    """Why `default` with these settings is refused; empty if it is not."""
    try:
        NpuConfig(**settings)
    except ConfigError as error:
        return str(error)
    return ""


def _presets() -> str:
    """A column a preset, a row each field that differs anywhere."""
    configs = list(PRESETS.values())
    rows = []
    for field in _fields():
        values = [getattr(c, field.name) for c in configs]
        if len(set(values)) > 1:
            rows.append([f"`{field.name}`", *map(_value, values)])
    rows.append(["PEs", *(str(c.pes) for c in configs)])
    rows.append(["digest", *(f"`{c.digest_hex}`" for c in configs)])
    return table(["", *(f"`{c.name}`" for c in configs)], rows, "lr")
