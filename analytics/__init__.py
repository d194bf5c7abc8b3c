"""From windows to the one cause: numerics, findings, fusion; `store` is the one I/O module."""
