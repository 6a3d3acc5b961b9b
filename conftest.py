"""Read for every test run: notebooks that nbval runs get the book's environment, and what stays is not searched again.

Imported libraries and collected tests are millions of objects that stay to the end. Python's garbage collector would
go through them again and again: with them set aside, the unit tests take a fifth less time.
"""

import gc

pytest_plugins = ["tools.pipeline.nbval_plugin"]


def pytest_configure(config) -> None:
    gc.disable()


def pytest_collection_finish(session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
