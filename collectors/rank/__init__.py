"""Inside the training process: records steps, phases and collectives at a bounded cost."""
