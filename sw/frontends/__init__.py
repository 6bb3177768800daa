"""Doors for models of other frameworks: each makes a PyTorch module, which the importer compiles.

doors.py   which door a file goes through, by its content
executorch/  delegates of ExecuTorch's files and runtime; no door, for programs are compiled
onnx/      ONNX files
litert/    LiteRT files (.tflite)
"""
