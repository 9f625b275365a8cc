"""Other queues on PostgreSQL, measured in turns beside ours."""
