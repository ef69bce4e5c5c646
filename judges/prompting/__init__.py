"""Prompts as data: packs by language, the questions built from them, their translation."""
