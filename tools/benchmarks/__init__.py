"""Measurements that take too long for a test: ``python -m tools.benchmarks``."""
