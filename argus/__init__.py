"""Argus names the slow rank of a distributed training job, says why and what to do."""

from argus.collectors.rank.api import init, mark, phase, step, work

__all__ = ["init", "mark", "phase", "step", "work"]
