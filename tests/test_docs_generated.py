"""Generated pages are what the generator writes today."""

from pathlib import Path

import pytest

from spec.isa import TABLE, Group
from spec.memmap import REGISTERS
from sw.measure.pages.reference import PAGES, main

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(tmp_path, name):
    main(tmp_path)
    assert (DOCS / name).read_text() == (tmp_path / name).read_text(), "run `make docs`"


def test_pages_have_every_field_and_register():
    isa = PAGES["isa.md"]()
    for fmt in TABLE:
        section = isa.split(f"\n## {fmt.opcode.name}\n")[1].split("\n## ")[0]
        for item in fmt.items:
            fields = item.fields if isinstance(item, Group) else (item,)
            prefix = f"{item.name}\\[0]." if isinstance(item, Group) else ""
            for field in fields:
                assert f"| `{prefix}{field.name}` |" in section
    registers = PAGES["registers.md"]()
    for register in REGISTERS:
        if not register.name.startswith("COUNT_"):
            assert f"| {register.offset:#05x} | `{register.name}` |" in registers
        elif register.name.endswith("_LO"):
            assert f" {register.offset:#05x} " in registers
