"""The software: compiler, devices, models, measurements, command line (docs/map.md)."""
