"""An index in a directory: SQLite is the truth, a mapped snapshot serves searches."""
