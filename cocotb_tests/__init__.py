"""Benches that run inside the simulator; their helpers are in tests/."""
