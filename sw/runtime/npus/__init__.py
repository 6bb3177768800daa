"""Several NPUs with one memory, in one simulation.

system.py     how many NPUs, how wide the memory; what is refused
registers.py  addresses of the doorbells, the runners and the NPUs' pages
build.py      the simulator of a system; lint.py: Verilator's -Wall over it
jobs.py       what each NPU runs, and where it lies in memory: batch and pipeline
device.py     the simulated system; report.py: what a run says
session.py    divides samples among NPUs and runs them: `systola.run_several`
"""
