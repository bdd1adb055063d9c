"""Operations of a unit of work, however they are counted."""

BACKWARD = 3
"""Operations of a training step over those of the forward pass: two gradients for each product."""
