"""Generated pages are what the generator writes today."""

import pytest

from spec.isa import TABLE, Group
from spec.memmap import REGISTERS
from sw.cli.pages import all_pages
from sw.measure.pages.reference import isa_page, registers_page

PAGES = all_pages()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name):
    assert PAGES[name].path.read_text() == PAGES[name].render(), "run `make docs`"


def test_pages_have_every_field_and_register():
    isa = isa_page()
    for fmt in TABLE:
        section = isa.split(f"\n## {fmt.opcode.name}\n")[1].split("\n## ")[0]
        for item in fmt.items:
            fields = item.fields if isinstance(item, Group) else (item,)
            prefix = f"{item.name}\\[0]." if isinstance(item, Group) else ""
            for field in fields:
                assert f"| `{prefix}{field.name}` |" in section
    registers = registers_page()
    for register in REGISTERS:
        if not register.name.startswith("COUNT_"):
            assert f"| {register.offset:#05x} | `{register.name}` |" in registers
        elif register.name.endswith("_LO"):
            assert f" {register.offset:#05x} " in registers
