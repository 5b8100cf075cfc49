"""Figures and tables of text: style, layout, numbers."""
