"""What the step times of one series say by themselves: spikes, shifts, drift, oscillation and periods."""
