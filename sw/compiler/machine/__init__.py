"""The machine as the compiler's cost model sees it: costs.py has every cycle constant."""
