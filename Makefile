# Copyright: (c) 2026, virtops.maintenance contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# make demo   sets up and runs the main job
# make test   sets up and passes all tests
#
# A machine with git, make and python3 >= 3.11 is enough: what else is needed is installed, into
# build/ and, when root, from Debian. A second run finds it there.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

BUILD := $(CURDIR)/build
VENV := $(BUILD)/venv
IMPORTER := $(BUILD)/importer
PY := $(VENV)/bin/python
TOOLS := tests/tools
STAMPS := $(BUILD)/stamps
COLLECTIONS := $(BUILD)/collections
LINK := $(COLLECTIONS)/ansible_collections/virtops/maintenance

# The tools of the virtual environment come first, wherever a tool calls another one.
export PATH := $(VENV)/bin:$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(COLLECTIONS)
export ANSIBLE_HOME := $(BUILD)/ansible
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONDONTWRITEBYTECODE := 1
export LC_ALL := C.UTF-8
unexport PYTHONPATH

# In CI a test that needs the lab must not skip.
ifeq ($(CI),true)
export VIRTOPS_REQUIRE_LAB := 1
endif

PYTEST = $(PY) -m pytest $(PYTEST_ARGS)
# A helper or test program that is part of the collection's test code
RUN = PYTHONPATH=$(COLLECTIONS):$(CURDIR)/tests $(PY)

##@ Set-up

venv: $(STAMPS)/venv $(LINK)/galaxy.yml ## the tools (build/venv) and the collection's import path (build/collections)

$(STAMPS)/venv: tests/requirements/tools.txt $(TOOLS)/find_python
	@python=$$($(TOOLS)/find_python); echo "venv: $$python -> build/venv"; \
	rm -rf $(VENV); "$$python" -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --quiet --requirement tests/requirements/tools.txt
	@mkdir -p $(@D) && touch $@

$(STAMPS)/importer: tests/requirements/importer.txt $(TOOLS)/find_python
	@python=$$($(TOOLS)/find_python); echo "importer: $$python -> build/importer"; \
	rm -rf $(IMPORTER); "$$python" -m venv $(IMPORTER)
	@$(IMPORTER)/bin/pip install --quiet --quiet --requirement tests/requirements/importer.txt
	@mkdir -p $(@D) && touch $@

# `ansible_collections.virtops.maintenance` is this directory, wherever it was cloned. The link
# is relative, so the clone can be moved.
$(LINK)/galaxy.yml:
	@mkdir -p $(dir $(LINK)) && ln -sfn ../../../.. $(LINK)

deps: venv ## Debian packages of the lab (when root) and everything of `venv`
	@$(TOOLS)/apt_install $(wildcard tests/lab/packages.txt)

##@ Checks

unit: venv ## pytest, no lab needed
	@mkdir -p $(BUILD)/reports
	$(PYTEST) -m "not lab" --junit-xml=$(BUILD)/reports/unit.xml $(wildcard tests/unit tests/lab/tests)

##@ The lab

lab-up: deps ## three real libvirt hosts on this machine
	$(RUN) -m lab up

lab-down: venv ## end them, whatever state they are in
	$(RUN) -m lab down

##@ Other

clean: ## remove everything that was made (ends the lab first)
	@if [ -e tests/lab/__main__.py ] && [ -x $(PY) ]; then $(MAKE) --no-print-directory lab-down; fi
	rm -rf $(BUILD)

help: ## this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv deps unit lab-up lab-down clean help
