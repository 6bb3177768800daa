"""Doors for models of other frameworks: each makes a PyTorch module, which the importer compiles.

doors.py   which door a file goes through, by its content
executorch/  delegates of ExecuTorch's files and runtime; no door, for programs are compiled
onnxruntime/ ONNX models in sessions of ONNX Runtime, with programs as operators
delegates/ compiled programs that these two frameworks call
onnx/      ONNX files
litert/    LiteRT files (.tflite)
"""
