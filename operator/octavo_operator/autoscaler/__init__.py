"""How many replicas a service should have: `decide()`, pure, from the engines' own metrics."""
