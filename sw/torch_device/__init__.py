"""`torch.device("systola")`: PyTorch operators on the NPU, one at a time.

register.py   the device and its kernels made known to PyTorch
interface.py  `torch.systola`: memory, options, the report
memory.py     storage: memory of the host with the device's name
kernels.py    what PyTorch calls for an operator: allocation, views, copies, everything else
operands.py   the arguments of a call: inputs, constants, numbers; its signature
program.py    one operator with its operands as a compiled graph
session.py    the programs by signature, and where each call runs
report.py     what ran where, and why
"""
