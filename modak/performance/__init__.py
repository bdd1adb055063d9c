"""Measurements and what is predicted from them."""
