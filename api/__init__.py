"""Composition: settings, service, HTTP and command line."""
