"""Registers as one process: the same registers, proven, without what copies them each cycle."""

import re

import pytest
from amaranth.back.verilog import convert
from amaranth.hdl import Cat, ClockDomain, ClockSignal, DomainRenamer, Elaboratable, Module, Signal

from hw_gen.verilog import one_process_a_register, repeated_bits
from sw.synth.errors import SynthError
from sw.synth.tools import find_yosys
from sw.synth.yosys import run_yosys

PROOF = """
read_verilog -sv "{old}"
prep -flatten -top top
rename top gold
design -stash gold
read_verilog -sv "{new}"
prep -flatten -top top
rename top gate
design -stash gate
design -copy-from gold -as gold gold
design -copy-from gate -as gate gate
equiv_make gold gate equiv
hierarchy -top equiv
equiv_simple -undef
equiv_induct
equiv_status -assert
"""


class Every(Elaboratable):
    """Registers of every kind: always loaded, enabled, partly assigned, chosen, two clocks."""

    def __init__(self) -> None:
        self.inputs = [Signal(8, name="a"), Signal(8, name="b"), Signal(2, name="which")]
        self.o = Signal(64)

    def elaborate(self, platform):
        m = Module()
        a, b, which = self.inputs
        registers = [Signal(8, name="instr[0].field" if n == 1 else f"r{n}") for n in range(8)]
        always, enabled, part, chosen, other, plain, late, around = registers
        m.d.sync += always.eq(a)
        with m.If(which[0]):
            m.d.sync += enabled.eq(b)
        with m.If(which[1]):
            m.d.sync += part[2:5].eq(a)
        with m.Else():
            m.d.sync += part[0].eq(b[0])
        with m.If(a[7]):
            m.d.sync += [around.eq(a), around[2:5].eq(b[:3])]
        with m.Switch(which):
            with m.Case(0, 3):
                m.d.sync += chosen.eq(a + b)
            with m.Case(1), m.If(a[0]):
                m.d.sync += chosen.eq(chosen + 1)
        gated = ClockDomain("gated", local=True)
        m.domains += gated
        m.d.comb += [gated.clk.eq(ClockSignal() & b[7]), gated.rst.eq(0)]
        m.d.gated += other.eq(other ^ a)
        m.submodules.below = below = DomainRenamer("gated")(Below(a))
        m.d.sync += [plain.eq(below.o), late.eq(Cat(plain[4:], a[:4]))]
        m.d.comb += self.o.eq(Cat(registers))
        return m


class Below(Elaboratable):
    def __init__(self, a: Signal) -> None:
        self.a, self.o = a, Signal(8)

    def elaborate(self, platform):
        m = Module()
        with m.If(self.a[1]):
            m.d.sync += self.o.eq(self.o + self.a)
        return m


def verilog() -> str:
    top = Every()
    ports = {signal.name: (signal, None) for signal in (*top.inputs, top.o)}
    return convert(top, name="top", ports=ports, emit_src=False)


def prove(folder, old: str, new: str) -> None:
    (folder / "old.sv").write_text(old)
    (folder / "new.sv").write_text(new)
    text = PROOF.format(old=folder / "old.sv", new=folder / "new.sv")
    run_yosys(find_yosys(), text, folder, lambda said: None)


def test_registers_are_the_same(tmp_path) -> None:
    old = verilog()
    new = one_process_a_register(old)
    assert len(re.findall(r"always @\(posedge", new)) == len(re.findall(r"always @\(posedge", old))
    for source in re.findall(r"always @\(posedge \S+ ?\)\n +\S+ +<= (\\\S+) ;", new):
        name = re.escape(source)
        in_parts = rf"{{ {name} .*}} = "
        assert re.search(rf"wire \[7:0\] {name} ;|{in_parts}", new), "no process makes it"
    prove(tmp_path, old, new)


def test_a_register_without_a_new_value_is_not_written() -> None:
    assert re.search(
        r"  always @\(posedge clk\) begin\n"
        r"    if \(which\[0\]\) begin\n      r1 <= b;\n    end\n".replace("r1", r"\S+ ?"),
        one_process_a_register(verilog()),
    )
    assert not re.search(r"(\S+) <= \1;", one_process_a_register(verilog()))


@pytest.mark.parametrize(
    ("right", "wrong"), [("if (which[0])", "if (which[1])"), ("r2[0]", "r2[1]")]
)
def test_a_fault_is_no_proof(tmp_path, right: str, wrong: str) -> None:
    new = one_process_a_register(verilog())
    assert new.count(right) == 1
    with pytest.raises(SynthError, match="unproven"):
        prove(tmp_path, verilog(), new.replace(right, wrong))


def test_a_next_value_that_something_reads_stays() -> None:
    text = verilog()
    found = re.search(r"  always @\(posedge clk\)\n    r0 <= (\\\S+) ;\n", text)
    assert found is not None
    read = text.replace("endmodule", f"  wire [7:0] spy = {found[1]} ;\nendmodule")
    assert one_process_a_register(read).count(found[0]) == 1


def test_repeated_bits_are_one_replication(tmp_path) -> None:
    old = """module top(input [3:0] a, input [1:0] \\b$1 , output [9:0] o, output [2:0] p);
  assign o = { a[3], a[3], a[3], a, \\b$1 [1], \\b$1 [1], \\b$1 [0] };
  assign p = { a[1], a[2], a[1] };
endmodule
"""
    new = repeated_bits(old)
    assert "{ {3{a[3]}}, a, {2{\\b$1 [1]}}, \\b$1 [0] }" in new
    assert "{ a[1], a[2], a[1] }" in new
    prove(tmp_path, old, new)
