"""Networks, their checkpoints and their run folders."""
