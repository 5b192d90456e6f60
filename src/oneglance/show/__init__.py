"""An answer made visible: what every pass drafted, judged and decided, recorded from a real run."""
