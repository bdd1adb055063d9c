"""What modak's decisions are worth: benchmarks, the study of native runs against containers, and reports."""
