"""One file per framework whose own phases we record."""
