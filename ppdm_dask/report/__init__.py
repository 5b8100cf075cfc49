"""What people look at: figures, tables and progress."""
