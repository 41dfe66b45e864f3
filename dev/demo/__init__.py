"""The demo: from nothing to a service that scales under load, on the path that production takes."""
