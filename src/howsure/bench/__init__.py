"""Benchmarks: published tables run again, one set of metrics for every method, and reports of them."""
