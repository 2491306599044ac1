"""Judging models: one set of numbers for every method, and reports made of them."""
