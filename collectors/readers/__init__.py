"""One file per trace format: files in, the collectors' own records out."""
