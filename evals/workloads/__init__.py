"""Training scripts that know nothing of Argus: what the demo and the benchmarks observe."""
