"""What the site makes of pages that are written for a code host (MkDocs calls the on_... functions).

- The navigation is docs/README.md's: its links to pages, in their order, grouped by its headings.
- Links to what is not part of the site, such as sources, lead to the code host if mkdocs.yml has a
  `repo_url`, else they become plain text.
- What is in a <details> block is Markdown, too.
- Formulas, $...$ or ```math, become MathML, which browsers show without a script.
"""
import html
import pathlib
import re

from latex2mathml.converter import convert

LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\[(\[](.*?)\\[)\]]\s*</\1>', re.DOTALL)


def navigation(contents, pages):
    """The navigation that a table of contents in Markdown stands for: of its links those to `pages`."""
    top, seen = [{"Contents": "README.md"}], set()
    group = top
    for line in contents.splitlines():
        if line.startswith("## "):
            group = []
            top.append({line[3:]: group})
        for words, target, _ in LINK.findall(line):
            if target in pages and target not in seen:
                seen.add(target)
                group.append({words: target})
    return [item for item in top if [] not in item.values()]


def on_config(config):
    docs = pathlib.Path(config.docs_dir)
    pages = {page.name for page in docs.glob("*.md")} - {"README.md"}
    config.nav = navigation((docs / "README.md").read_text(encoding="utf-8"), pages)
    return config


def on_page_markdown(markdown, page, config, files):
    """Links that leave the site, Markdown in what folds, and a gap between block quotes, which would be joined else."""
    here = pathlib.Path(config.docs_dir, page.file.src_uri).parent
    root = pathlib.Path(config.config_file_path).parent

    def replacement(link):
        words, target, anchor = link.groups()
        path = (here / target).resolve()
        if not path.exists() or root not in path.parents:
            return link[0]
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
