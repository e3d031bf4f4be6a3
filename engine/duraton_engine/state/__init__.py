"""What the engine keeps about workflows: the tables and the objects in them."""
