"""What is known: images, levers, hardware and published measurements, as data files."""
