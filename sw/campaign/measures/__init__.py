"""What the kinds of tasks do, a function `(task, bench) -> outcome` each.

bench.py        what a worker keeps from task to task
runs.py         a workload on the RTL or on the golden model
preparation.py  lint, and the simulator
prediction.py   cycles and bytes of a workload by the compiler's timing model
synthesis.py    area, clock and energy
programs.py     random programs; mutations of the RTL
conformance.py  official TOSA tests
"""
