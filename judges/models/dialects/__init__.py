"""Request and reply formats: the dialect of every general model, and those of models trained to judge."""
