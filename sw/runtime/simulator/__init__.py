"""Building, caching and driving the RTL simulation.

build.py     from a configuration to a simulator: generated.py, recipe.py, verilator.py;
             training.py: what a program runs while its profile is taken
cache.py     the cache of what takes long to make: manifest.py
process.py   a running simulator: cocotb_env.py, control.py (shared files), layout.py (regions)
registers.py registers as Python values; guard.py, guarded.py: processes that end with ours
lint.py      Verilator's -Wall; fusesoc.py: FuseSoC targets; errors.py
"""
