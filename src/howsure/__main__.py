"""`python -m howsure` is the command line."""

from howsure.cli.app import main

main()
