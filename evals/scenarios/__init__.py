"""One file per fault, with its truth."""
