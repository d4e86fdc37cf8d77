"""Configuration of the documentation site; `make docs` builds it. What is made by the program is in `_site/`."""

import sys
from pathlib import Path

import glmesh

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_site"))

project = "glmesh"
author = "The glmesh developers"
copyright = author  # the theme's footer shows this name
version = release = glmesh.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "outside",  # pages that stand outside of docs/
    "from_program",  # commands, errors, exit codes, pairs of loss and penalty
]
exclude_patterns = ["_build", "_site", "deploy"]
templates_path = ["_templates"]
default_role = "literal"  # docstrings write code between single backquotes
smartquotes = False  # options begin with two hyphens
highlight_language = "none"  # indented blocks are commands or formulas

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Pages: headings of all levels can be linked to as on GitHub.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# API: a page for every name on reference/api.md.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc's section Parameters has the types
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # the template lists methods
numpydoc_validation_checks = {
    "all",
    "GL01",  # the text begins in the line of the quotes, as everywhere in this project
    "GL02",  # and short ones end there, too
    "GL03",  # blank lines within literal blocks are counted as doubled
    "GL08",  # ruff finds missing docstrings
    "ES01",  # a summary may be all that there is to say
    "SA01",  # See Also: the reference groups what belongs together
    "SA04",
    "EX01",  # tests/test_docstrings.py and tests/test_project.py ask for examples, and run them
    "PR01",  # tests/test_docstrings.py compares parameters with signatures, and knows inherited ones
    "PR02",
    "PR03",  # keyword-only parameters stand with those that they belong to
    "PR08",  # descriptions begin with a symbol or a small letter where the type's line is continued
    "PR09",
    "RT02",  # returned values have names where there are several
    "RT03",
    "RT04",
    "RT05",
    "YD01",
    "SS02",  # a summary may be a formula, or begin with one
    "SS03",
    "SS05",
    "SS06",
}
numpydoc_validation_overrides = {
    "RT01": [r"\b[Rr]eturn"],  # a method whose sentence says what it returns, in which shape
    "PR04": ["As of `Cola`"],  # parameters of Cocoa
}

# Gallery: every examples/plot_*.py, with the figures that it leaves in its variables.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"(^|[\\/])(?!plot_)[^\\/]*\.py$",
    "image_scrapers": ("gallery.figures",),
    "within_subsection_order": "gallery.Order",
    "thumbnail_size": (560, 420),
    "write_computation_times": False,  # that page would load scripts from outside
    "show_memory": False,
    "download_all_examples": True,
    "abort_on_example_error": False,  # all that fail are listed; a failure ends the build
    "min_reported_time": 1e9,  # [s] how long a script took is not part of its page
    "remove_config_comments": True,
    "show_signature": False,
    "first_notebook_cell": "%matplotlib inline",
    "last_notebook_cell": "figure",  # the variable in which every script leaves its picture
}

# Formulas: MathJax comes from the package sphinx-mathjax-offline and is copied into the site.
mathjax_path = "mathjax/tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}}  # its menu would load speech from outside

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static", "generated/static"]
html_css_files = ["glmesh.css"]
html_title = f"glmesh {release}"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "glmesh"},
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "faq": [], "citing": [], "generated/outside/CHANGELOG": []}
