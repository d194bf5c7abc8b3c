"""Observe: what every rank and host of a training job did."""
