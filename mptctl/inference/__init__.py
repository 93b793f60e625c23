"""Runs trained models: predictions, features, few-shot episodes, and checks of imported models."""
