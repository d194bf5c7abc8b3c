"""A stand-in for a language model, on loopback, with the habits of real servers: for tests, demos and first steps."""
