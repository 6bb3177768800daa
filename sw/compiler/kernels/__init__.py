"""Kernel families, a folder for each kind of layer, and what they share.

families.py  the table of families; base.py: what a family offers; layers.py: all layers by name
tiling.py    stage `tiling`; budget.py: memory that a layer may use; boxes.py: pieces of tensors
schedule.py  stage `schedule`; emitter.py, context.py: what emitters write with; dma.py: boxes as
             LOAD and STORE; buffers.py, slots.py: rotating buffers; places.py: places in the
             accumulator; turns.py: its banks in turns
operands.py  what a VECTOR computes; epilogue.py: its fields; params.py: parameter entries
views.py     where tensors lie in memory; windows.py: windows larger than an instruction takes
"""
