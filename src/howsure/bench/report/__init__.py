"""Comparison of our runs with published tables, as text, Markdown and pages."""
