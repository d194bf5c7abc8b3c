"""Triage without a service: traces, logs and dumps in, a report out."""
