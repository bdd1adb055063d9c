"""What does an application's work: a framework, or a runtime that executes models in its place; one class each."""
