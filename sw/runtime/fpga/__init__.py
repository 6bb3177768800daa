"""An NPU on an FPGA, or the same top simulated, behind a serial line.

device.py  programs and tensors; line.py: the commands; simulated.py: a simulation of the top
"""
