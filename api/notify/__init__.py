"""Telling people and other systems of incidents: what is told when, once, and how it is kept."""
