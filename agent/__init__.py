"""Wording and actions of a diagnosis, and the tools a model may call."""
