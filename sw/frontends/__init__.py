"""Doors for models of other frameworks: each makes a PyTorch module, which the importer compiles.

doors.py   which door a file goes through, by its content
onnx/      ONNX files
litert/    LiteRT files (.tflite)
"""
