"""TVM: Relax modules in which calls are programs of the NPU, and machines that run them.

Ahead of time:
offloading.py  `offload`: regions are compiled until each is one program
reading.py     a Relax function as records.py: calls in order, tuples taken apart
survey.py      which calls have nodes of ONNX; a region as a module
call.py        what the function of an operator is given; the operators, by family, in
operators/     one function for each: it writes nodes of ONNX (`sw/frontends/onnx/building.py`)
values.py      what regions are calibrated with, by TVM
rewriting.py   the function with a call of each program

At run time:
host.py        the packed function that runs programs
offloaded.py   `Offloaded`: module, machines, file, report; `load`
"""
