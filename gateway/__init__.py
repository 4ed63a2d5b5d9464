"""sluicegate: fits conversations into a model's context window, in front of any OpenAI-compatible provider."""

__version__ = "0.1.0"
