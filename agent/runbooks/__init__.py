"""What to do about a cause: the catalogue of actions, and runbooks in Markdown."""
