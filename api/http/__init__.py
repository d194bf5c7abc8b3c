"""The service over HTTP: routes under /v1, probes, metrics, problems as problem+json."""
