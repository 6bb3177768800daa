"""What pooling and elementwise layers share: both are computed by the vector engine alone.

work.py: a layer as the others here see it. plan.py: tiles. cost.py: cycles of a plan. emit.py:
instructions.
"""
