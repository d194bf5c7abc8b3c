"""Who works with whom, on what: parallel layout and, later, the physical graph."""
