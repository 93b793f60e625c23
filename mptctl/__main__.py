"""Runs the command line with `python -m mptctl`."""

from mptctl.cli.app import main

if __name__ == "__main__":  # a spawned worker imports this file as well
    main()
