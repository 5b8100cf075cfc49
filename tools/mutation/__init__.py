"""Parts of ``tools/mutate.py``: what is changed, which tests see it, and what they say."""
