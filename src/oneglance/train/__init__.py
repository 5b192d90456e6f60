"""Training of drafters; needs PyTorch (`pip install 'oneglance[train]'`)."""
