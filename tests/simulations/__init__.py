"""Simulations that count how often intervals and marks are wrong; each is a program, and a test runs it in small."""
