"""An NPU with memory and a serial line: what an FPGA board needs to run it.

top.py     the NPU with the others, and its reset
loader.py  commands of a host; uart.py: the line they come by
memory.py  block RAM behind AXI, with a port for the loader
"""
