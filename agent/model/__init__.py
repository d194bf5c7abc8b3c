"""Talking to a language model behind an OpenAI-compatible endpoint."""
