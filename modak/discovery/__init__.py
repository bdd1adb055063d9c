"""Text that a target prints about itself -> Facts."""
