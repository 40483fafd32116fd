# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx's settings for the site. `make docs` copies this file to where it collects the pages."""

project = "virtops.maintenance"
project_copyright = "virtops.maintenance contributors"
html_title = "virtops.maintenance"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# The sources are the repository's; copies of them would be a second place to look.
html_copy_source = False
html_show_sphinx = False
# It would be empty: nothing here is indexed.
html_use_index = False
# Anchors as a forge makes them, so that a link works there and here.
myst_heading_anchors = 4
# Tables, sample output and Jinja are no single language that a lexer knows.
highlight_language = "none"
# What other collections and Ansible itself document is not fetched from the network.
_OF_ANSIBLE = "action_plugins|ansible_configuration_settings|common_return_values"
nitpick_ignore_regex = [
    ("std:ref", rf"(ansible_collections\.(?!virtops\.maintenance\.).*|{_OF_ANSIBLE})"),
    ("envvar", r".*"),
]
