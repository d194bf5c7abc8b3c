"""The conversation with a model: what is asked, what is called, when it ends."""
