"""What reports give away under a design, per answer and attribute."""
