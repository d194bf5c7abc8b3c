"""Investigations of a project: asked for, run in the background, kept step by step, called back."""
