"""Judge a model on data: every metric, with the name of its convention."""
