"""Prompts as data: packs by language, the questions made of them, their translation."""
