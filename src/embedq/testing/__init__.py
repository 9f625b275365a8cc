"""What proves an adapter, shipped: conformance suites to inherit, and providers that fail to order.

`embedq.testing.embedder` holds the embedder's suite, `embedq.testing.provider` a loopback server that speaks the OpenAI
embeddings wire, and `embedq.testing.faults` the script of bad days that it and the fake embedder play. Import them by
their own names: this module brings nothing along.
"""
