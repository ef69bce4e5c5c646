"""The catalogue: every judge and metric of the sources, by source."""
