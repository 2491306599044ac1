"""A local web app over a gallery, and a client of its API."""
