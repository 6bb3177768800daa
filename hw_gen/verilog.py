"""Amaranth's Verilog in the form that simulators run fast.

One clocked process for each register (`one_process_a_register`):
Amaranth writes a register as two processes. One without a clock computes the next value, which is
the present value where no statement gives another, and one with a clock copies it. A simulator then
copies every register twice in every cycle. Here the statements are moved into the clocked process,
where a register without a new value keeps its own: a clock enable.

One replication for a bit that is repeated (`repeated_bits`): Amaranth writes the sign of a wider
number bit by bit, and Verilator makes a shift and an addition of each.
"""

import re
from collections import Counter
from dataclasses import dataclass

_NAME = r"(?:\\\S+|[A-Za-z_][\w$]*)"
_SOURCE = r'(?:  \(\* src = "[^"]*" \*\)\n)?'
_COPY = re.compile(
    rf"(?P<source>{_SOURCE})  always @\(posedge (?P<clock>{_NAME}) ?\)\n"
    rf"    (?P<register>{_NAME}) +<= (?P<next>\\\S+) ;\n"
)
_PROCESS = re.compile(rf"{_SOURCE}  always @\* begin\n(?P<body>.*?\n)  end\n", re.DOTALL)
_UNUSED = re.compile(r"    if \(\\\$auto\$verilog_backend\S* \) begin end\n")
_TARGET = re.compile(rf"^ +({_NAME}) +(?:\[[^\]]*\] )?= ", re.MULTILINE)
_PARTS = re.compile(r"^ +\{.*\} = ", re.MULTILINE)
"""Several parts of a register written at once."""
_DECLARATION = re.compile(rf"(?:{_SOURCE})  reg (?:\[\d+:\d+\] )?(?P<name>\\\S+) ;\n")
_REPEATED = re.compile(rf"(?<=[\s{{])(?P<bit>{_NAME} ?\[\d+\])(?:, (?P=bit))+")
_MODULE = re.compile(r"(?<=endmodule\n)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A process that copies `next` to `register`."""

    source: str
    clock: str
    register: str
    next: str


def one_process_a_register(verilog: str) -> str:
    """`verilog` as Amaranth prints it, with the same registers in one process each.

    A register stays as it is where its next value is read by anything else.
    """
    return "".join(_module(text) for text in _MODULE.split(verilog))


def repeated_bits(verilog: str) -> str:
    """`verilog` as Amaranth prints it, with every repeated bit as one replication."""

    def replication(found: re.Match[str]) -> str:
        times = found[0].count(", ") + 1
        return f"{{{times}{{{found['bit']}}}}}"

    return _REPEATED.sub(replication, verilog)


def _module(text: str) -> str:
    copies = {found["next"]: _Copy(**found.groupdict()) for found in _COPY.finditer(text)}
    uses = Counter(re.findall(r"\\\S+", text))
    moved: set[str] = set()

    def process(found: re.Match[str]) -> str:
        body = _UNUSED.sub("", found["body"])
        targets = set(_TARGET.findall(body))
        copy = copies.get(targets.pop()) if len(targets) == 1 and not _PARTS.search(body) else None
        # All other uses: where it is declared, and where it is copied.
        if copy is None or uses[copy.next] != body.split().count(copy.next) + 2:
            return found[0]
        moved.add(copy.next)
        statements = "".join(_clocked(line, copy) for line in body.splitlines(keepends=True))
        head = f"{copy.source}  always @(posedge {_written(copy.clock)}) begin\n"
        return f"{head}{statements}  end\n"

    text = _PROCESS.sub(process, text)
    text = _COPY.sub(lambda found: "" if found["next"] in moved else found[0], text)
    return _DECLARATION.sub(lambda found: "" if found["name"] in moved else found[0], text)


def _clocked(line: str, copy: _Copy) -> str:
    """A line of the process that computes the next value, for the clocked process."""
    name, _, rest = line.strip().partition(" ")
    if name != copy.next:
        return line
    part, _, value = rest.partition("= ")
    if not part.strip() and value == f"{_written(copy.register)};":
        return ""  # it keeps its value without being told
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{_written(copy.register)}{part.strip()} <= {value}\n"


def _written(name: str) -> str:
    """A name as it stands before anything else: an escaped one ends with a space."""
    return f"{name} " if name.startswith("\\") else name
