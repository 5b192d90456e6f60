"""Shows exactness, or finds where it is lost: on accept rules, loaded models, anybody's server."""
