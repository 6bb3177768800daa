"""Building, caching and driving the RTL simulation."""
