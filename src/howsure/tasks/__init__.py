"""Tasks for embeddings with uncertainty, one file each."""
