"""Steps between training and release: a trained model is changed into one that keeps a budget."""
