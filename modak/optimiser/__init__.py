"""The decision: enumerate candidates, reject the impossible, predict, choose, explain."""
