"""What comes between training and release: a trained model changed into one that keeps a budget."""
