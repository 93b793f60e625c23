"""What the program computes, written to a folder, so that two trees can be compared: `python -m tests.same`."""
