"""Building blocks of the judges: sample fields, numbered items, claims, sentences, similarity, calls."""
