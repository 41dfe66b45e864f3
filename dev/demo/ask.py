"""One question through the official client, its answer shown while it streams."""

import openai
from rich.console import Console

QUESTION = "What is the capital of France, and what is it known for?"


def ask(base_url: str, model: str, console: Console) -> str:
    """Print and return the streamed answer."""
    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key="none", timeout=120)
    console.print(f"  [bold]you[/]    {QUESTION}")
    console.print(f"  [bold]{model}[/] ", end="")
    answer = ""
    stream = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=80,
        temperature=0,
        stream=True,
    )
    for chunk in stream:
        piece = chunk.choices[0].delta.content if chunk.choices else None
        if piece:
            answer += piece
            console.print(piece, end="", highlight=False, markup=False, soft_wrap=True)
    console.print()
    return answer
