"""The few shapes underneath the catalogue: needed fields, numbered items, claims, sentences, similarity, calls."""
