"""The schedulers: one small class each, pure text in and out."""
