"""Lowering of elementwise operators and reductions, alone or as chains of one fused layer.

operators.py   one operator; chains.py: several; members.py: which operators form a chain
steps.py       the table: an operator as VECTORs
reductions.py  reductions; argmax.py: ARGMAX
"""
