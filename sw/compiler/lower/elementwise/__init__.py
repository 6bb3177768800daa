"""Lowering of elementwise operators and reductions, alone or as chains of one fused layer."""
