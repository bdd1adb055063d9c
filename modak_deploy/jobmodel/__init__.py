"""The JSON job model: one document in, the same document completed out."""
