"""Sweeps that take longer than a notebook may: each script writes data/sweeps/<name>.json with all that made it."""
