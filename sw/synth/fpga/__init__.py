"""Synthesis for an FPGA.

ecp5.py    resources by block and the clock; wrapper.py: registers in place of pins
report.py  what was found; board.py: bitstreams, and the boards that there are
"""
