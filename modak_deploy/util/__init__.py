"""What every layer may use: files, text, numbers with units, names of processors; it imports nothing else of modak."""
