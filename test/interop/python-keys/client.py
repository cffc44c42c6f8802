"""One call for each line of standard input, {library, base, key}, by a client that knows a base URL and a key alone."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
import openai
from langchain_openai import ChatOpenAI

# LiteLLM prints advice where answers are read.
answers, sys.stdout = sys.stdout, sys.stderr

MESSAGES = [{"role": "user", "content": "Hello"}]


def by_openai(base, key):
    client = openai.OpenAI(base_url=base, api_key=key, max_retries=0)
    answer = client.chat.completions.create(model="small", max_tokens=20, messages=MESSAGES)
    pieces = client.chat.completions.create(model="small", max_tokens=20, messages=MESSAGES, stream=True)
    streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    return answer.choices[0].message.content and streamed


def by_langchain(base, key):
    model = ChatOpenAI(base_url=base, api_key=key, model="small", max_tokens=20, max_retries=0)
    return model.invoke("Hello").content


def by_litellm(base, key):
    answer = litellm.completion(
        model="openai/small", api_base=base, api_key=key, max_tokens=20, messages=MESSAGES, num_retries=0, max_retries=0
    )
    return answer.choices[0].message.content


CLIENTS = {"openai": by_openai, "langchain": by_langchain, "litellm": by_litellm}

for line in sys.stdin:
    call = json.loads(line)
    try:
        said = {"text": CLIENTS[call["library"]](call["base"], call["key"])}
    except Exception as error:  # Whatever its user would see.
        said = {"error": str(error), "status": getattr(error, "status_code", None)}
    print(json.dumps(said), file=answers, flush=True)
