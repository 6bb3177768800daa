"""How far predictions are off: programs on random configurations and memories, against the RTL."""
