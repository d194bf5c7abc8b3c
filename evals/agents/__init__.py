"""Systems that ask a model, on simulated faults and under planted instructions: what they answer and what it costs."""
