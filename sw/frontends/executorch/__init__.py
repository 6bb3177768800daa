"""ExecuTorch: models as `.pte` files whose delegates are programs of the NPU, and their runtime.

Ahead of time:
lowering.py     an exported program with its parts compiled; operator.py: what stands for a part
partitioner.py  `SystolaPartitioner` and `SystolaBackend`, which ExecuTorch asks

In the file:
identify.py     whether a file is ExecuTorch's; ../delegates/payload.py: what a delegate holds

At run time:
delegate.cpp    the delegate as ExecuTorch's C++ knows it; library.py: built and loaded
session.py      its callbacks; ../delegates/delegate.py: one delegate, on a device
program.py      `load` and `register`
"""
