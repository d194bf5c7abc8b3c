"""Tests of the kernel channel."""
