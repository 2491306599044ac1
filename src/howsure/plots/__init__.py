"""Everything that draws: maps of embeddings, outlines of their uncertainty, contact sheets, figures."""
