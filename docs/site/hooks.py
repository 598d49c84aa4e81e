"""What the site makes of pages that are written for a code host (MkDocs calls the on_... functions).

- The site opens with the project's README.md, of which it makes the page index.md. docs/README.md is the next page.
- The navigation is docs/README.md's: its links to pages, in their order, grouped by its headings. A link to a
  chapter's front page brings the chapter's other pages, in the order in which that page links to them, up to
  one that docs/README.md links to itself: that one brings the rest.
- Links to what is not part of the site, such as sources, lead to the code host if mkdocs.yml has a
  `repo_url`, else they become plain text.
- What is in a <details> block is Markdown, too.
- Formulas, $...$ or ```math, become MathML, which browsers show without a script.
"""
import html
import os
import pathlib
import re

from latex2mathml.converter import convert

LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


LANDING = "index.md"


def landing(text):
    """The project's README.md as a page beside docs/README.md: what it links to is seen from docs/."""
    return re.sub(r"\]\((?![a-z]+:|#)([^()\s]+)\)",
                  lambda link: f"]({link[1][5:] if link[1].startswith('docs/') else '../' + link[1]})", text)


def navigation(docs):
    """The navigation: the landing page, and that for the table of contents docs/README.md, of its links those to pages."""
    top, seen = [{"specdec": LANDING}, {"Contents": "README.md"}], {"README.md"}
    group = top
    contents = (docs / "README.md").read_text(encoding="utf-8")
    heads = {page for _, page in links(docs, "README.md", contents)}
    for line in contents.splitlines():
        if line.startswith("## "):
            group = []
            top.append({line[3:]: group})
        for words, page in links(docs, "README.md", line):
            if page in seen:
                continue
            seen.add(page)
            part = chapter(docs, page, heads)
            group.append({words: part if len(part) > 1 else page})
    return [item for item in top if [] not in item.values()]


def chapter(docs, head, heads):
    """The pages that a head brings: itself, and in their order those to which its folder's front page links, up to
    the next one of the heads."""
    folder = pathlib.PurePath(head).parent
    front = (folder / "README.md").as_posix()
    if folder == pathlib.PurePath() or not (docs / front).is_file():
        return [head]
    pages = {front: front}
    for words, page in links(docs, front, (docs / front).read_text(encoding="utf-8")):
        if pathlib.PurePath(page).parent == folder:
            pages.setdefault(page, {"More" if page.endswith("/more.md") else words: page})
    order = list(pages)
    begin = order.index(head)
    end = next((i for i in range(begin + 1, len(order)) if order[i] in heads), len(order))
    return [pages[page] for page in order[begin:end]]


def links(docs, page, text):
    """The links of a page to pages: (words, page from docs on)."""
    for words, target, _ in LINK.findall(text):
        path = (docs / page).parent.joinpath(target).resolve()
        if path.suffix == ".md" and path.is_file() and docs.resolve() in path.parents:
            yield words, path.relative_to(docs.resolve()).as_posix()


def on_config(config):
    config.nav = navigation(pathlib.Path(config.docs_dir))
    return config


def on_files(files, config):
    from mkdocs.structure.files import File  # the navigation's tests run without it
    contents = files.get_file_from_path("README.md")  # which would be the site's index.html
    contents.dest_uri = "contents.html" if not config.use_directory_urls else "contents/index.html"
    text = (pathlib.Path(config.config_file_path).parent / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, LANDING, content=landing(text)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links that leave the site, Markdown in what folds, and a gap between block quotes, which would be joined else."""
    here = pathlib.Path(config.docs_dir, page.file.src_uri).parent
    root = pathlib.Path(config.config_file_path).parent

    def replacement(link):
        words, target, anchor = link.groups()
        path = (here / target).resolve()
        if not path.exists() or root not in path.parents:
            return link[0]
        if path == root / "README.md":
            return f"[{words}]({os.path.relpath(LANDING, pathlib.PurePath(page.file.src_uri).parent)}{anchor or ''})"
        inside = pathlib.Path(config.docs_dir) in path.parents
        file = files.get_file_from_path(path.relative_to(config.docs_dir).as_posix()) if inside else None
        if file and not file.inclusion.is_excluded():
            return link[0]
        if not config.repo_url:
            return words
        kind = "tree" if path.is_dir() else "blob"
        return f"[{words}]({config.repo_url}/{kind}/main/{path.relative_to(root)}{anchor or ''})"

    markdown = LINK.sub(replacement, markdown).replace("<details>", "<details markdown>")
    return re.sub(r"(?m)^(>.*\n)\n(?=>)", r"\1\n<!-- -->\n\n", markdown)


def on_page_content(content, **_):
    def mathml(formula):
        tag, text = formula.groups()
        shown = convert(html.unescape(text).strip(), display="block" if tag == "div" else "inline")
        return f'<{tag} class="formula">{shown}</{tag}>'

    return FORMULA.sub(mathml, content)
