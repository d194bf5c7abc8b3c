"""The store: what was received, what was found of it and how far the analysis is, in SQL."""
