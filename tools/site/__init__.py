"""The book's own Sphinx extension: pages load what they use, and say what they are. Named in _config.yml.

``files`` leaves out scripts and styles, ``pictures`` makes them small and late, ``about`` writes a page's description
and the commit, ``lost`` writes 404.html.
"""

from __future__ import annotations

from tools.site import about, files, lost, pictures


def setup(app) -> dict:
    app.connect("html-collect-pages", lost.page)
    app.connect("html-page-context", pictures.place, priority=800)  # after the theme
    app.connect("html-page-context", about.describe, priority=800)
    app.connect("html-page-context", files.choose, priority=900)
    app.connect("build-finished", files.sweep)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
