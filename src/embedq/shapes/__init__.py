"""The serialised form of the data types: one shape per answer, the same for HTTP and the command line.

A shape is made from its type by `of` and serialised by `model_dump(mode="json")`; FastAPI describes it in OpenAPI.
"""
