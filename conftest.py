"""Read for every test run: notebooks that nbval runs get the book's environment."""

pytest_plugins = ["tools.pipeline.nbval_plugin"]
