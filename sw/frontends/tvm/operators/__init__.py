"""Relax operators as nodes of ONNX, a function for each; `table.py` has them all by name."""
