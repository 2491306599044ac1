"""Pages of the site that live at the root of the repository, each kept once: README, CONTRIBUTING and so on."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add them, with their links as seen from docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        for source, target in PAGES.items():
            text = text.replace(f"]({source})", f"]({target})")
        files.append(File.generated(config, page, content=text))
    return files
