"""A partition: deciding, committing, recovering, verifying."""
