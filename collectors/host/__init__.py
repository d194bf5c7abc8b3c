"""The host processor: receives its ranks, cuts windows, uploads."""
