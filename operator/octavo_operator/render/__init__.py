"""The objects that a service needs, as plain dictionaries: pure functions of the service and the settings."""
