"""The models: what a user describes, what discovery finds, what the optimiser decides, what became of the job."""
