"""Runs the command line with `python -m mptctl`."""

from mptctl.cli.app import main

main()
