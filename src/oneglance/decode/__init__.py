"""One pass (step.py, open this first), the loop around it, and when an answer ends."""
