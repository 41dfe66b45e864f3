"""A Kubernetes cluster for the demo and the tests."""
