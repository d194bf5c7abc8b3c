"""Slack: text that is safe to send, messages within its limits, answers to what people press and ask."""
