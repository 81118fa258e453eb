"""What a spec may say in short, said in full: one operation an equation, every place an index."""
