"""`python -m embedq` is `embedq`."""

from embedq.cli import main

main()
