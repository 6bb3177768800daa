"""Registers around a design with more ports than a package has pins, in cells of the ECP5.

Inputs come from one shift register. Outputs go into another, where each bit is added (exclusive
or) to the one before. So every path from and to a pin of the design is one from and to a register.
"""

from typing import Any

_FF = (
    'TRELLIS_FF #(.GSR("DISABLED"), .CEMUX("1"), .CLKMUX("CLK"), .LSRMUX("LSR"), .REGSET("RESET"))'
)


def wrapper(top: str, name: str, ports: dict[str, Any]) -> str:
    """Verilog of a module with the ports clk, serial and result around `top`."""
    inputs = [(p, len(d["bits"])) for p, d in ports.items() if d["direction"] == "input"]
    inputs = [(port, width) for port, width in inputs if port != "clk"]
    outputs = [(p, len(d["bits"])) for p, d in ports.items() if d["direction"] == "output"]
    taken = sum(width for _, width in inputs)
    given = sum(width for _, width in outputs)
    lines = [
        f"module {name} (input clk, input serial, output result);",
        f"  wire [{taken}:0] in;",
        f"  wire [{given}:0] sum;",
        f"  wire [{max(given - 1, 0)}:0] out, next;",
        "  assign in[0] = serial;",
        "  assign sum[0] = serial;",
        f"  assign result = sum[{given}];",
    ]
    for i in range(taken):
        pins = f".CLK(clk), .LSR(1'b0), .CE(1'b1), .DI(in[{i}]), .Q(in[{i + 1}])"
        lines.append(f"  {_FF} input_{i} ({pins});")
    for i in range(given):
        lut = f".A(out[{i}]), .B(sum[{i}]), .C(1'b0), .D(1'b0), .Z(next[{i}])"
        pins = f".CLK(clk), .LSR(1'b0), .CE(1'b1), .DI(next[{i}]), .Q(sum[{i + 1}])"
        lines.append(f"  LUT4 #(.INIT(16'h6666)) add_{i} ({lut});")
        lines.append(f"  {_FF} output_{i} ({pins});")
    at, connections = 1, [".clk(clk)"] if "clk" in ports else []
    for port, width in inputs:
        connections.append(f".\\{port} (in[{at + width - 1}:{at}])")
        at += width
    at = 0
    for port, width in outputs:
        connections.append(f".\\{port} (out[{at + width - 1}:{at}])")
        at += width
    lines += [f"  {top} inner ({', '.join(connections)});", "endmodule", ""]
    return "\n".join(lines)
