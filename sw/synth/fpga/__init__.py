"""Synthesis for an FPGA.

ecp5.py    resources by block and the clock; wrapper.py: registers in place of pins
block_ram.py  which small memories become block RAM; short_memories.py: addresses of the others
carries.py  gates that carry cells take in; spread.py: tables that stay free
report.py  what was found; board.py: bitstreams, and the boards that there are
"""
