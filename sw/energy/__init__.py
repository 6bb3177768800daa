"""Energy of a run: states of the RTL, played on the netlist, times what the library says.

flow.py        the order of everything; report.py: what is told, as tables and JSON
states.py      sampled states from the simulator's waves
play.py        every gate's value in those states
account.py     what changes cost, by block; cells.py: in gates, parameters.py: in memories and DRAM
"""
