"""A survey team's own files: data by blocks, reports and counts that say what made them."""
