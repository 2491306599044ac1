"""An index on a server: the server stores items and finds candidates, comparisons stay here."""
