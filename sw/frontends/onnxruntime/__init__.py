"""ONNX Runtime: models in which operators are programs of the NPU, and their sessions.

Ahead of time:
offloading.py  `offload`: regions are compiled until each is one program
survey.py      which nodes the ONNX door has functions for
regions.py     who makes and reads each value; a region as a model of its own
values.py      what regions are calibrated with, by ONNX Runtime
rewriting.py   the model with an operator for each program, and what is read of it again

At run time:
session.py     the operators, and sessions that have them
offloaded.py   `Offloaded`: model, sessions, file, report; `load`
"""
