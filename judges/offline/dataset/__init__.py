"""Reading datasets, and pairing their rows."""
