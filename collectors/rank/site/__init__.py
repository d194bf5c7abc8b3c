"""The directory `argus run` puts first on PYTHONPATH."""
