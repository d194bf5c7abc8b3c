"""One seeded generator of the collectors' own records."""
