"""What was measured and what is predicted from it."""
