"""Personal data and secrets in a text, found by rules: formats, checksums, and the words beside them."""
