"""Text to token ids and back."""

from octavo_engine.tokenizer.detokenizer import IncrementalDetokenizer
from octavo_engine.tokenizer.tokenizer import Tokenizer, load_tokenizer

__all__ = ["IncrementalDetokenizer", "Tokenizer", "load_tokenizer"]
