"""What `python -m gradcheck` can do: one file a command, each of which gives an Answer."""
