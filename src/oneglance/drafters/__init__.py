"""Ways of guessing the next tokens, one file for each; factory.py has their names."""
