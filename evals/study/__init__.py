"""The fidelity study: what a kernel summary loses, and what that costs a detector."""
