"""Synthesis of a configuration's RTL: area, clock and FPGA resources; `flow.py` has the order."""
