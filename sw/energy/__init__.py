"""Energy of a run: toggles of the RTL, played on the netlist, times what the library says."""
