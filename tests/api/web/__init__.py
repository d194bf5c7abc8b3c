"""The web page: its charts, its files, and a browser on it."""
