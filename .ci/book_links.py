"""Checks that links and pictures of a built book lead to its own files and headings: `book_links.py FOLDER`."""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """What a page can be linked to at, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.path, self.anchors, self.links = path, set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.add(attrs.get("id"))
        self.links += [attrs[key] for key in ("href", "src") if attrs.get(key)]


def dead(page, pages):
    """The links of a page that lead nowhere."""
    for link in page.links:
        parts = urllib.parse.urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page.path
        if parts.path:
            target = (page.path.parent / urllib.parse.unquote(parts.path)).resolve()
        anchors = pages[target].anchors if target in pages else None
        if not target.exists() or (parts.fragment and anchors and parts.fragment not in anchors):
            yield f"{page.path}: the link {link} leads nowhere"


pages = {path: Page(path) for path in pathlib.Path(sys.argv[1]).resolve().rglob("*.html")}
# The page for what is not found, and all chapters in one, have the links of others.
chapters = [page for path, page in pages.items() if path.name not in ("404.html", "print.html", "toc.html")]
found = sorted({sentence for page in chapters for sentence in dead(page, pages)})
print("\n".join(found) or f"{len(chapters)} pages, all links lead somewhere")
sys.exit(bool(found))
