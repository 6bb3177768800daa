"""Amaranth generator of the NPU's RTL.

generate.py    from a configuration to files (`python -m hw_gen`); headers.py: C header, SV package
verilog.py    the form in which registers are written
top.py         the NPU: the components of blocks/ and their connections
interfaces.py  signatures between blocks; layouts.py: records made from the instruction table
checks.py      assertions for simulation; events.py: wires that the tracer reads
"""
