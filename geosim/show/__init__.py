"""Pictures, pages and the fields that they show."""
