"""Small memories of fewer than 16 words are addressed by one bit twice.

Yosys gives address bits that a memory does not need the value 0. It comes by wires from a table
that makes it, and all such pins together were the longest net of a design. The bit below has a wire
to the same place.
"""

import json
from pathlib import Path

MEMORY = "TRELLIS_DPR16X4"
_READ, _WRITE, _FIRST = "RAD", "WAD", "INITVAL"


def repeat_address_bits(netlist: Path) -> int:
    """Give address bits of small memories that are 0 the bit below, in a netlist that Yosys wrote;
    returns how many.

    Words that differ stay apart, because reads and writes move to the same ones. Memories that
    begin with a value other than 0 stay as they are.
    """
    design = json.loads(netlist.read_text())
    changed = 0
    for module in design["modules"].values():
        for cell in module["cells"].values():
            if cell["type"] != MEMORY or "1" in cell["parameters"].get(_FIRST, ""):
                continue
            read, write = (cell["connections"][pins] for pins in (_READ, _WRITE))
            for bit in range(1, len(read)):
                if read[bit] == write[bit] == "0":
                    read[bit], write[bit] = read[bit - 1], write[bit - 1]
                    changed += 1
    netlist.write_text(json.dumps(design, indent=2))
    return changed
