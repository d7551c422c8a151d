"""``python -m serving.cli`` is ``shortfirst``."""

from serving.cli import main

main()
