"""A business directory: its entries and their embedding jobs are written in one transaction."""
