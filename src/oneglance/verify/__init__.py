"""Accept rules: which draft tokens stay, so that the output follows the target's law exactly."""
