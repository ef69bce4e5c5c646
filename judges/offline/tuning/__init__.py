"""Judges that learn from labels: `tune` changes what a judge is asked, `learn` puts a cheap level before it."""
