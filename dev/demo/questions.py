"""What the crowd asks. Every question differs, so that the prefix cache shares only the system prompt."""

import random

TOPICS = (
    "the moon", "volcanoes", "bread", "bicycles", "honey bees", "the ocean", "printing", "bridges", "penguins", "rain",
    "chess", "mountains", "coffee", "lighthouses", "trains", "clouds", "music", "libraries", "windmills", "rivers",
    "maps", "glass", "elephants", "the alphabet", "paper", "sailing", "forests", "clocks", "salt", "kites",
)  # fmt: skip
REQUESTS = (
    "Explain {} to a child.",
    "Write a short story about {}.",
    "List five facts about {}.",
    "Why do people like {}?",
    "Describe the history of {}.",
    "Write a letter to a friend about {}.",
)


def question(rng: random.Random) -> str:
    return rng.choice(REQUESTS).format(rng.choice(TOPICS)) + f" (This is question {rng.randrange(10**6)}.)"
