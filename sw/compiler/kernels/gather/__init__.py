"""Rows picked or placed by offsets in a tensor, through indexed LOAD and STORE.

layer.py: what is computed. plan.py: tiles. cost.py: cycles of a plan. emit.py: instructions.
"""
