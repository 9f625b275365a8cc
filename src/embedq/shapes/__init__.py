"""How nouns look outside: one shape per answer, the same for HTTP, for the command line, and for what comes next.

A shape is made from its noun by `of` and written by `model_dump(mode="json")`; FastAPI describes it in OpenAPI.
"""
