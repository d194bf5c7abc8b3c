"""Argus names the slow rank of a distributed training job, says why and what to do."""
