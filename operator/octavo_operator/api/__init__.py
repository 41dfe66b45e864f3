"""The InferenceService resource: typed models that are the one source of its schema."""
