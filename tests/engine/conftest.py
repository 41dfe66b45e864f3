from pathlib import Path

import pytest

from octavo_engine.models import resolve_model
from octavo_engine.tokenizer import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def smollm2_directory() -> Path:
    return resolve_model("bundled://smollm2-135m-instruct")


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_directory: Path) -> Tokenizer:
    return load_tokenizer(smollm2_directory)
