"""The C header and the SystemVerilog package of a configuration, derived from `spec` alone.

Both hold the same facts: dimensions, sizes, register offsets, enumerations, digests and the bit
positions of every instruction field. The text depends only on what `NpuConfig.digest()` covers, so
equal hardware has byte-identical files whatever its configuration is called.
"""

import dataclasses
import enum
from collections.abc import Iterator

from spec.config import NpuConfig
from spec.isa import (
    GRANULE_BYTES,
    ISA_DIGEST,
    ISA_VERSION,
    TABLE,
    Alu,
    DType,
    Engine,
    Group,
    Opcode,
    Point,
    Reduce,
    Scale,
    Space,
    Table,
)
from spec.memmap import ADDR_BITS, ID_VALUE, OFFSETS, Control, Fault, Stall, Status
from spec.program import REGION_CONST, REGION_INPUT, REGION_OUTPUT, REGION_TEMP

LICENSE = "SPDX-License-Identifier: Apache-2.0"
"""In the first line of everything that is generated."""

_DERIVED = (
    "pes",
    "spad_bytes",
    "word_bytes",
    "spad_words",
    "bank_depth",
    "acc_vectors",
    "acc_half",
    "acc_bank",
    "param_entry_bytes",
    "param_bytes",
    "table_bytes",
)
_ENUMS: tuple[type[enum.IntEnum] | type[enum.IntFlag], ...] = (
    Opcode,
    Engine,
    Fault,
    Stall,
    Control,
    Status,
    Point,
    Space,
    DType,
    Scale,
    Alu,
    Reduce,
    Table,
)
_REGIONS = {
    "CONST": REGION_CONST,
    "INPUT": REGION_INPUT,
    "OUTPUT": REGION_OUTPUT,
    "TEMP": REGION_TEMP,
}


def _sizes(config: NpuConfig) -> Iterator[tuple[str, int]]:
    """Configuration fields and what follows from them, as (NAME, value)."""
    for field in dataclasses.fields(config):
        if field.name != "name":
            yield field.name.upper(), int(getattr(config, field.name))
    for name in _DERIVED:
        yield name.upper(), getattr(config, name)


def _fields() -> Iterator[tuple[str, int, int]]:
    """Every instruction field as (NAME, lowest bit, bits); a group's are those of element 0."""
    for fmt in TABLE:
        at = 0
        for item in fmt.items:
            if isinstance(item, Group):
                for field, lsb, _ in item.places():
                    name = f"{fmt.opcode.name}_{item.name}_{field.name}".upper()
                    yield name, at + lsb, field.bits
            else:
                yield f"{fmt.opcode.name}_{item.name}".upper(), at, item.bits
            at += item.bits


def _group_strides() -> Iterator[tuple[str, int, int]]:
    """Every group as (NAME, elements, bits from one element to the next)."""
    for fmt in TABLE:
        for item in fmt.items:
            if isinstance(item, Group):
                name = f"{fmt.opcode.name}_{item.name}".upper()
                yield name, item.count, item.element_bits


def _apart() -> Iterator[tuple[str, int]]:
    """Fields of groups that lie apart as (NAME, bits from one element to the next)."""
    for fmt in TABLE:
        for item in fmt.items:
            if isinstance(item, Group):
                for field, _, step in item.places():
                    if field.apart:
                        yield f"{fmt.opcode.name}_{item.name}_{field.name}".upper(), step


def _enum_name(kind: type[enum.IntEnum] | type[enum.IntFlag]) -> str:
    return kind.__name__.lower()


def c_header(config: NpuConfig) -> str:
    """`systola_params.h`: C11 and C++, no includes but <stdint.h>; every name starts SYSTOLA_."""
    out = [
        f"/* {LICENSE} */",
        "/* Generated from spec/ by hw_gen/headers.py; do not edit.",
        " * Field positions: bit _LSB of the little-endian instruction, _BITS wide. Element i of a",
        " * group (loop, wait, post) lies i * _ELEMENT_BITS higher; a field that has its own _STEP",
        " * lies i * _STEP higher. */",
        "#ifndef SYSTOLA_PARAMS_H",
        "#define SYSTOLA_PARAMS_H",
        "",
        "#include <stdint.h>",
        "",
    ]

    def define(name: str, value: str | int) -> None:
        out.append(f"#define SYSTOLA_{name} {value}")

    define("ISA_VERSION_MAJOR", ISA_VERSION[0])
    define("ISA_VERSION_MINOR", ISA_VERSION[1])
    define("ISA_DIGEST", f"UINT64_C(0x{ISA_DIGEST:016x})")
    define("CONFIG_DIGEST", f"UINT64_C(0x{config.digest_hex})")
    define("ID_VALUE", f"UINT32_C(0x{ID_VALUE:08x})")
    out.append("")
    for name, value in _sizes(config):
        define(name, value)
    define("GRANULE_BYTES", GRANULE_BYTES)
    out += ["", "/* Base registers that programs address memory through. */"]
    for name, value in _REGIONS.items():
        define(f"REGION_{name}", value)
    out += ["", f"/* Register offsets in bytes; the register file spans 2^{ADDR_BITS} bytes. */"]
    define("REG_ADDR_BITS", ADDR_BITS)
    for name, value in OFFSETS.items():
        define(f"REG_{name}", f"0x{value:03x}")
    for kind in _ENUMS:
        prefix = _enum_name(kind).upper()
        members = [f"    SYSTOLA_{prefix}_{m.name} = {int(m)}" for m in kind]
        out += ["", f"enum systola_{_enum_name(kind)} {{", ",\n".join(members), "};"]
    out += ["", "/* Instruction lengths in granules. */"]
    for fmt in TABLE:
        define(f"{fmt.opcode.name}_GRANULES", fmt.granules)
    out += ["", "/* Instruction fields. */"]
    for name, lsb, bits in _fields():
        define(f"{name}_LSB", lsb)
        define(f"{name}_BITS", bits)
    out += ["", "/* Groups. */"]
    for name, count, stride in _group_strides():
        define(f"{name}_ELEMENTS", count)
        define(f"{name}_ELEMENT_BITS", stride)
    for name, step in _apart():
        define(f"{name}_STEP", step)
    return "\n".join([*out, "", "#endif", ""])


def sv_package(config: NpuConfig) -> str:
    """`systola_pkg.sv`: the same facts for test benches and integrators."""
    out = [
        f"// {LICENSE}",
        "// Generated from spec/ by hw_gen/headers.py; do not edit.",
        "// Nobody uses all of it.",
        "/* verilator lint_off UNUSEDPARAM */",
        "package systola_pkg;",
        "",
    ]

    def integer(name: str, value: int) -> None:
        out.append(f"  localparam int unsigned {name} = {value};")

    def vector(name: str, bits: int, value: int) -> None:
        digits = -(-bits // 4)
        out.append(f"  localparam logic [{bits - 1}:0] {name} = {bits}'h{value:0{digits}x};")

    integer("ISA_VERSION_MAJOR", ISA_VERSION[0])
    integer("ISA_VERSION_MINOR", ISA_VERSION[1])
    vector("ISA_DIGEST", 64, ISA_DIGEST)
    vector("CONFIG_DIGEST", 64, config.digest())
    vector("ID_VALUE", 32, ID_VALUE)
    out.append("")
    for name, value in _sizes(config):
        integer(name, value)
    integer("GRANULE_BYTES", GRANULE_BYTES)
    out.append("")
    for name, value in _REGIONS.items():
        integer(f"REGION_{name}", value)
    out += ["", "  // Register offsets in bytes."]
    integer("REG_ADDR_BITS", ADDR_BITS)
    for name, value in OFFSETS.items():
        vector(f"REG_{name}", ADDR_BITS, value)
    for kind in _ENUMS:
        prefix = _enum_name(kind).upper()
        bits = max(1, max(int(m) for m in kind).bit_length())
        members = [f"    {prefix}_{m.name} = {bits}'d{int(m)}" for m in kind]
        name = f"{_enum_name(kind)}_e"
        out += ["", f"  typedef enum logic [{bits - 1}:0] {{", ",\n".join(members), f"  }} {name};"]
    out += ["", "  // Instruction lengths in granules, then fields and groups."]
    for fmt in TABLE:
        integer(f"{fmt.opcode.name}_GRANULES", fmt.granules)
    for name, lsb, bits in _fields():
        integer(f"{name}_LSB", lsb)
        integer(f"{name}_BITS", bits)
    for name, count, stride in _group_strides():
        integer(f"{name}_ELEMENTS", count)
        integer(f"{name}_ELEMENT_BITS", stride)
    for name, step in _apart():
        integer(f"{name}_STEP", step)
    return "\n".join([*out, "", "endpackage", "/* verilator lint_on UNUSEDPARAM */", ""])
