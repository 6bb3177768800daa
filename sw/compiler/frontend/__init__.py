"""From a PyTorch model to a TOSA graph of integers: one importer, one table of operators.

importing.py    the one way in: capture, normalize, choose a policy, import
capture.py      any model to a functional ATen graph; normalize.py: one spelling for each operation
quantization/   policies: how values become integers
plan.py         which rule imports which nodes; patterns.py: groups of nodes that one rule imports
operators.py    the table: rule, types and limits of each operator; support.py: why a node has none
importer.py     the walk that builds the TOSA graph; rules/: one function an operator
layout.py       how a tensor lies in memory; ports.py: floats to integers and back
quantized.py    an imported model as a file; rebatch.py: the same for more samples a run
compile_module.py  a model to a program image
"""
