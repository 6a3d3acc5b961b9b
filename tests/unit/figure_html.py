"""What is in the HTML of a figure, for the tests of figures."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from utils.figures import Figure


def data_of(figure: Figure | str) -> dict:
    """The JSON that the element reads, from a figure or its HTML."""
    html = figure if isinstance(figure, str) else figure.html()
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)[1])


class Tags(HTMLParser):
    """Names of the tags and of their attributes, in order."""

    def __init__(self):
        super().__init__()
        self.opened, self.attributes = [], []

    def handle_starttag(self, tag, attrs):
        self.opened.append(tag)
        self.attributes += [name for name, _ in attrs]
