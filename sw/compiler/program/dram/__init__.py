"""A DRAM as a program sees it.

addresses.py   where the program and its regions lie; paths.py: the accesses of a LOAD in order
open_rows.py   which row each bank has open, and when another one can be accessed
reads.py       bursts of LOADs and of the program; writes.py: those of STOREs, which wait
"""
