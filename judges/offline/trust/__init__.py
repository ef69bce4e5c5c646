"""What labels and recorded loops tell: how far a verdict can be believed."""
