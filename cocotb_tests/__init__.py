"""Benches that run inside the simulator; their helpers are in tests/.

array_bench.py       the systolic array alone
memory_bench.py      the simulated memory; axi_checks_bench.py: the rules of its ports
npu_memory_bench.py  the NPU moves memory through AXI models that are not ours
harness/             what runs inside the simulator on behalf of a device
"""
