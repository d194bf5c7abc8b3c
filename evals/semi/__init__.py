"""Faults of known size put into recordings of real jobs, so that what surrounds them is real."""
