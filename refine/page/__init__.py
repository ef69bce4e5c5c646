"""The page: what is recorded, in the browser."""
