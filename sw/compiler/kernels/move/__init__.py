"""PAD, TRANSPOSE and copies, through LOAD and STORE alone.

layer.py: what is computed. plan.py: tiles. cost.py: cycles of a plan. emit.py: instructions.
"""
