"""geosim predicts the shape of soft robots."""
