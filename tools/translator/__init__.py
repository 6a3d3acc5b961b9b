"""How the translators of data/ are made: fetch, extract, split, train, evaluate, export."""
