"""Many requests at once: who takes part in each pass, and what becomes of those that wait."""
