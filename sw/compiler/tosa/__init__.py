"""TOSA graphs: what the compiler works on.

graph.py        the graph; nodes.py: tensors and operators; digest.py, macs.py: facts of a graph
table.py        the operators, a row each; operators/: their rules; semantics/: their meaning
interpreter.py  a whole graph in NumPy; integers.py: integers of a call that outgrow the program
file.py         reading TOSA files: flatbuffer_tables.py, schema.py; flatbuffer.py: writing them
sequences.py    softmax and norms of spec/sequences in a graph; double_round.py: DOUBLE_ROUND
"""
