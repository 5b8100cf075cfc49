"""Parts of ``tools/fuzz.py``: what is damaged, how, and what a command may answer."""
