"""One file per way to tell people."""
