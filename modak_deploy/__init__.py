"""modak: plan, deploy and tune AI and HPC applications from measurements and performance models."""

__version__ = "0.1.0"
