"""The HTTP API: it inserts and reads rows, and moves bytes to and from the store. It knows no queue."""
