"""Where model files come from: installed packages, the hub, wheels of a package index."""
