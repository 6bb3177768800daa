"""Doors for models of other frameworks: each makes a PyTorch module, which the importer compiles.

onnx/   ONNX files
"""
