"""Bits of memories that are not in the memory wrapper, which become flip-flops in silicon."""

import re

import pytest
from amaranth.back import rtlil

from hw_gen.platform import RtlPlatform
from hw_gen.top import Npu
from spec import preset

_MODULE = re.compile(r"module \\(\S+)")
_MEMORY = re.compile(r"\s*memory width (\d+) size (\d+)")


def other_bits(name: str) -> dict[str, int]:
    """Bits of arrays outside `systola_sram`, by module. Before any synthesis: takes seconds."""
    found: dict[str, int] = {}
    module = ""
    for line in rtlil.convert(Npu(preset(name)), platform=RtlPlatform()).splitlines():
        if start := _MODULE.match(line):
            module = start[1]
        if memory := _MEMORY.match(line):
            found[module] = found.get(module, 0) + int(memory[1]) * int(memory[2])
    return found


@pytest.mark.parametrize(("name", "most"), [("tiny", 1_500), ("default", 1_500)])
def test_nearly_every_bit_is_in_the_memory_wrapper(name, most):
    found = other_bits(name)
    assert found, "the small queues are arrays of registers: the count finds nothing"
    assert sum(found.values()) <= most, found
