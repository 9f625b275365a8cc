"""Tools to test an adapter: conformance suites to inherit, and providers with scripted faults.

`embedq.testing.embedder` is the embedder's suite, `embedq.testing.provider` a loopback server for the OpenAI
embeddings API, and `embedq.testing.faults` the fault scripts that it and the fake embedder play. Import them by
their own names: this module exports nothing.
"""
