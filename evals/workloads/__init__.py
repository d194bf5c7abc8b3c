"""Training scripts that know nothing of Argus: what the demo and the benchmarks observe."""

PARALLELS = ("ddp", "fsdp2", "pp", "moe")
"""How `train.py` can spread its model."""
