"""Helpers that every notebook of the book shares."""
