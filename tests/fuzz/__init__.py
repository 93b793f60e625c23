"""Fuzzing: sound inputs, damaged at random, given to the command line, which must refuse or read each of them."""
