"""How models are asked and read: the dialect of every general model, and those of models trained to judge."""
