"""The wire: every type that leaves a rank or a host, importable inside a training process."""
