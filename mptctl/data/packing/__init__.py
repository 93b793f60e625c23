"""Copies of pictures that lie elsewhere or in other forms: read from any source, written as a folder or shards."""
