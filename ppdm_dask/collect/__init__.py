"""The survey itself: a page that disguises in the respondent's hands, and what it sends."""
