"""Trials: the same questions through several arms that share the first answer, judged by a truth of their own."""
