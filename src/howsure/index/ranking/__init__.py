"""Rank items exactly: keys that an ordinary engine can search, and the comparison of its candidates in float64."""
