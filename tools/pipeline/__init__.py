"""From a text source to executed, normalised notebooks. Start at tools/notebooks.py."""
