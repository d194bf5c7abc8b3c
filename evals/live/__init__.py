"""Real faults on real training jobs under the product as it ships, and whether it named them right."""
