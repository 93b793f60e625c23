"""The release gate: limits and gate files held against a comparison, drafts of them, and past verdicts."""
