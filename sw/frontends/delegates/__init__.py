"""Compiled parts of a model that the runtime of another framework calls.

payload.py   what is stored of one; compiled.py: made of a part of the graph
delegate.py  one that is open, on a device; report.py: what several have done
options.py   options, by where they are decided

Of frameworks whose graphs are split by their own nodes:
regions.py   the nodes of a stage that run on the NPU
compiling.py a region to a program, by the parts of `torch.compile`; search.py: until each is one
"""
