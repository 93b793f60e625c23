"""The release gate: limits and a gate file held against a comparison, drafts of gate files, and past verdicts."""
