"""How our runs compare with published tables, as text, Markdown and pages."""
