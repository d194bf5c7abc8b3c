"""L3: kernel summaries of many ranks compared, from packed tables to findings."""
