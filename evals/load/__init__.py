"""Hosts of a large cluster played against a real service: what they send, when, and what became of it."""
