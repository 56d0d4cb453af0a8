"""The outcome journal: each final outcome once, as Parquet, and the data source that reads outcome topics."""
