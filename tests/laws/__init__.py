"""`make laws`: every rule and pass of the engine taken away in turn, and what the corpus loses by that."""
