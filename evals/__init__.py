"""Measured truth: simulator, scenarios, demo and benchmarks."""
