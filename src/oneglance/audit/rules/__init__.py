"""Accept rules under enumeration: how far each one's law is from the target's, to the last bit."""
