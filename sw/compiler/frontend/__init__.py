"""From a PyTorch model to a TOSA graph of integers: one importer, one table of operators.

importing.py    the one way in: capture, normalize, choose a policy, import
capture.py      any model to a functional ATen graph, batch norms folded (batch_norms.py)
normalize.py    operators without a rule in other words (rewrites/), and what is no work
quantization/   policies: how values become integers
plan.py         which rule imports which nodes; patterns.py: groups of nodes that one rule imports
operators.py    the table: rule, types, limits of each operator; operator_sets.py: sets of its rows;
                operator_row.py: what a row has; limits.py: limits as checks
nodes.py        arguments, shape and type of a node; support.py: why the importer takes none of it
importer.py     the walk by rules/, one function an operator; building.py: the TOSA graph they build
layout.py       how a tensor lies in memory; ports.py: floats to integers and back
quantized.py    an imported model as a file; rebatch.py: the same for more samples a run
compile_module.py  a model to a program image
sources.py, dynamic_shapes.py, threads.py   facts of a captured graph, and how PyTorch is run
weights.py, windows.py   what rules share: weights block by block, windows that fit exactly
"""
