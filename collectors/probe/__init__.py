"""Measure a host apart from any job: matrix products, memory copies, all-reduces with one partner after another."""
