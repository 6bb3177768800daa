"""One VECTOR over operands of equal shape; see also vector/.

layer.py: what is computed. plan.py: the search for tiles. emit.py: instructions.
"""
