"""Tools: what the model is told of them, what it may answer, and the calls in its answer."""
