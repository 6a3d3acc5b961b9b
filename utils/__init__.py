"""Helpers that every notebook shares. Where to find what:

models, corpora, translator     models and texts that need no network; a translation Transformer to read
parses                          sentences of those texts with their dependencies
search_index                    a sentence encoder as a search engine, and how well it finds
attention                       maps of any model, their statistics, rollout, attention from scratch
measures                        numbers about weights, maps and states, each with its null model (the door to
                                asymmetry, spectra, nulls, roles, dependencies, similarity)
architectures, heads            where a model's heads lie; gate them, take them out for a while
importance, pruning             which heads matter; remove them, learn gates, draw curves
planner                         what a model costs, and which variants fit a budget
training                        one small training loop
exercises, claims               checks of answers; claim cards and what notebooks record
plots, figures                  pictures, and figures that answer a reader (each with its element in js)

The rest holds what one chapter or lab needs beyond its cells.
"""
