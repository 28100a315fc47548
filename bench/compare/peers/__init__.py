"""The engines: one class each, with the interface of base.Engine."""
