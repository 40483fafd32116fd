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

BUILD := $(CURDIR)/build
VENV := $(BUILD)/venv
IMPORTER := $(BUILD)/importer
PEERS := $(BUILD)/peers
BMC := $(BUILD)/bmc
DOCS_VENV := $(BUILD)/docs-venv
PY := $(VENV)/bin/python
TOOLS := tests/tools
STAMPS := $(BUILD)/stamps
COLLECTIONS := $(BUILD)/collections
LINK := $(COLLECTIONS)/ansible_collections/virtops/maintenance
PACKAGE := ansible_collections.virtops.maintenance
LINT_TREE := $(BUILD)/lint/ansible_collections/virtops/maintenance
ON_COPY := PYTHONDONTWRITEBYTECODE=1 ANSIBLE_COLLECTIONS_PATH=$(BUILD)/lint

# The tools of the virtual environment come first, wherever a tool calls another one.
export PATH := $(VENV)/bin:$(PATH)
export ANSIBLE_COLLECTIONS_PATH := $(COLLECTIONS)
export ANSIBLE_HOME := $(BUILD)/ansible
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE
export LC_ALL := C.UTF-8
unexport PYTHONPATH

# Of the lab's hosts: RELEASE=trixie, for any target that has some; this machine's own otherwise.
export VIRTOPS_RELEASE := $(or $(RELEASE),$(VIRTOPS_RELEASE))

# In CI a test that needs the lab must not skip.
ifeq ($(CI),true)
export VIRTOPS_REQUIRE_LAB := 1
endif

PYTEST := $(PY) -m pytest
# What a part runs, unless PYTEST_ARGS names files of its own.
tests = $(if $(filter tests/% ./tests/% $(CURDIR)/tests/%,$(PYTEST_ARGS)),,$(wildcard $(1)))
# A worker that has nothing left takes tests from another: a long one at the end holds up nobody.
SPREAD := --dist worksteal
# A program that is part of the collection's test code
RUN = PYTHONPATH=$(COLLECTIONS):$(CURDIR)/tests $(PY)

##@ Set-up

venv: $(STAMPS)/venv $(LINK)/galaxy.yml ## the tools (build/venv) and the collection's import path (build/collections)

$(STAMPS)/venv: tests/requirements/tools.txt $(TOOLS)/find_python
	@python=$$($(TOOLS)/find_python); echo "venv: $$python -> build/venv, takes a minute or two"; \
	rm -rf $(VENV); "$$python" -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --quiet --timeout 30 --retries 5 --requirement tests/requirements/tools.txt
	@mkdir -p $(@D) && touch $@

$(STAMPS)/importer: tests/requirements/importer.txt $(TOOLS)/find_python
	@python=$$($(TOOLS)/find_python); echo "importer: $$python -> build/importer"; \
	rm -rf $(IMPORTER); "$$python" -m venv $(IMPORTER)
	@$(IMPORTER)/bin/pip install --quiet --quiet --timeout 30 --retries 5 --requirement tests/requirements/importer.txt
	@mkdir -p $(@D) && touch $@

$(STAMPS)/peers: tests/requirements/peers.txt $(TOOLS)/find_python
	@python=$$($(TOOLS)/find_python); echo "peers: $$python -> build/peers"; \
	rm -rf $(PEERS); "$$python" -m venv $(PEERS)
	@$(PEERS)/bin/pip install --quiet --quiet --timeout 30 --retries 5 --requirement tests/requirements/peers.txt
	@mkdir -p $(@D) && touch $@

# And the agents, with the simulated BMC of fence_ipmilan.
$(STAMPS)/bmc: tests/requirements/bmc.txt $(TOOLS)/find_python
	@$(TOOLS)/apt_install fence-agents ipmitool openipmi
	@python=$$($(TOOLS)/find_python); echo "bmc: $$python -> build/bmc"; rm -rf $(BMC); "$$python" -m venv $(BMC)
	@$(BMC)/bin/pip install --quiet --quiet --timeout 30 --retries 5 --requirement tests/requirements/bmc.txt
	@mkdir -p $(@D) && touch $@

$(STAMPS)/docs: tests/requirements/docs.txt $(TOOLS)/find_python
	@python=$$($(TOOLS)/find_python); echo "docs: $$python -> build/docs-venv"; \
	rm -rf $(DOCS_VENV); "$$python" -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/pip install --quiet --quiet --timeout 30 --retries 5 --requirement tests/requirements/docs.txt
	@mkdir -p $(@D) && touch $@

# `ansible_collections.virtops.maintenance` is this directory, wherever it was cloned. The link
# is relative, so the clone can be moved.
$(LINK)/galaxy.yml:
	@mkdir -p $(dir $(LINK)) && ln -sfn ../../../.. $(LINK)

# Both at once: one waits for a mirror while the other unpacks. find_python first, it may install too.
deps: ## Debian packages of the lab (when root) and everything of `venv`
	@$(TOOLS)/find_python >/dev/null
	@$(MAKE) --no-print-directory --jobs=2 venv debs

debs:
	@$(TOOLS)/apt_install $(wildcard tests/lab/packages.txt) $(if $(QUICK),,mmdebstrap)

##@ Checks

# Two tiers. `make test` leaves out what is marked `full` and what costs more than it finds; a part by
# itself and `make test-all` leave out nothing. Quotes hold what runs at the same time, commas what runs in
# turn. What they need is installed before.
QUICK := $(filter quick,$(TIER))
NOT_FULL := $(if $(QUICK), and not full)
# The lab waits more than it computes: beside it goes, one after another, what computes. Both take as long.
TEST_PARTS ?= "integration,molecule-lab,sanity,lint kubevirt,unit,sabotage,molecule-kubevirt"
test: export TIER := quick
test: deps ## the quick tier, what CI runs: a quarter of an hour at most (TEST_PARTS="unit" for a part of it)
	@$(PY) $(TOOLS)/run_parts.py $(TEST_PARTS)

# The same two lanes: what needs the lab stands in the first, one after another, and nothing else.
ALL_PARTS ?= "integration,integration-trixie,molecule-lab kubevirt,unit,sabotage,molecule-kubevirt,sanity,lint"
test-all: deps ## everything, less than two hours; before an issue is called resolved
	@$(PY) $(TOOLS)/run_parts.py $(ALL_PARTS)

gate: ## CI's run on a clone of HEAD in build/gate; build/gate.json says what came of it
	@python=$$($(TOOLS)/find_python) && "$$python" $(TOOLS)/gate.py

RUNS ?= 5
steady: ## the gate RUNS times; beside the last two one process keeps a core busy
	@python=$$($(TOOLS)/find_python) && "$$python" $(TOOLS)/gate.py --runs $(RUNS) --busy 2

tiers: venv ## how many tests of each file are in the quick tier, and how many only in the full one
	@$(RUN) $(TOOLS)/tiers.py

LINTS := lint-python lint-shell lint-types lint-layers map lint-yaml lint-roles lint-docs lint-licences \
	$(if $(QUICK),,tiers lint-importer docs lint-workflows)
lint: venv ## style, types, layers, the map, YAML, roles, docs, licences, and what Galaxy checks on import
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target $(LINTS)

lint-python: venv
	ruff check --quiet .
	ruff format --quiet --check --diff .

lint-shell: venv
	shellcheck $$(git ls-files -co --exclude-standard | while read -r file; do \
		if head -n 1 "$$file" 2>/dev/null | grep -qaE '^#!.*[/ ](ba)?sh( |$$)'; then echo "$$file"; fi; done)

lint-types: venv
	mypy --package $(PACKAGE).plugins.module_utils._core --package fleetsim

lint-layers: venv
	@$(PY) $(TOOLS)/check_layers.py

map: venv ## each package with its files, lines and imports; fails on a circle and on what is too large
	@$(PY) $(TOOLS)/map_rooms.py

lint-yaml: venv
	yamllint --strict .

.PHONY: $(LINT_TREE)
$(LINT_TREE): venv
	@$(PY) $(TOOLS)/export_tree.py $(BUILD)/lint >/dev/null

# On the copy: ansible-lint and antsibull-docs want the collection under its own name. The quick tier
# leaves out what is only for tests: the scenarios of molecule, YAML below tests/. Half of the time.
lint-roles: $(LINT_TREE)
	cd $(LINT_TREE) && $(ON_COPY) ansible-lint --offline --nocolor -q $(if $(QUICK),roles playbooks meta plugins)

lint-docs: $(LINT_TREE)
	cd $(LINT_TREE) && $(ON_COPY) antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self .
	cd $(LINT_TREE) && antsibull-changelog lint
	@cd $(LINT_TREE) && $(ON_COPY) $(PY) $(CURDIR)/$(TOOLS)/check_action_groups.py .

lint-licences: $(LINT_TREE)
	cd $(LINT_TREE) && reuse lint --lines

lint-workflows: $(STAMPS)/docs
	$(DOCS_VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml

lint-importer: dist $(STAMPS)/importer
	@$(TOOLS)/galaxy_import $(BUILD)/dist/virtops-maintenance-*.tar.gz

docs: $(LINK)/galaxy.yml $(STAMPS)/docs ## the site, in build/docs/html; every local link is followed
	@PATH=$(DOCS_VENV)/bin:$$PATH $(DOCS_VENV)/bin/python $(TOOLS)/make_docs.py

picture: venv ## docs/roll.svg, a roll in a terminal, from a real run on the simulator
	$(RUN) $(TOOLS)/make_picture.py

reference: venv ## write what docs/reasons.md and docs/policy.md take from the code
	$(RUN) $(TOOLS)/make_reference.py

public-names: venv ## write the public names of this release, from which a later one may differ by a changelog line
	@$(RUN) $(TOOLS)/public_names.py

record: deps ## write what real libvirt hosts answer about some thirty guests again, to be read in git diff
	VIRTOPS_RECORD=1 $(PYTEST) -k answers_as_recorded tests/integration/test_reasons.py tests/integration/test_reasons_devices.py

golden: venv ## write the golden plans again, to be read in git diff
	$(RUN) -m golden.plans

format: venv ## put the Python files and the planted faults in order
	ruff check --fix-only --quiet . || true
	ruff format .
	@$(RUN) tests/sabotage/run.py --format

# The quick tier has what takes seconds, and imports on the oldest Python alone what modules import (unit
# tests run on the newest). Left out: pylint, what `lint` runs by other tools (pep8, compile), and
# runtime-metadata, whose environment takes a quarter of a minute.
QUICK_SANITY := action-plugin-docs empty-init ignores line-endings no-assert no-get-exception \
	no-illegal-filenames no-smart-quotes replace-urlopen shebang symlinks use-argspec-type-path \
	use-compat-six validate-modules
sanity: venv ## all of ansible-test sanity, nothing ignored (SANITY_ARGS="--test pylint" for a part)
ifdef QUICK
	$(TOOLS)/sanity $(QUICK_SANITY:%=--test %)
	$(TOOLS)/sanity --test import --python 3.9 plugins/modules/
else
	$(TOOLS)/sanity $(SANITY_ARGS)
endif

unit: venv $(if $(QUICK),,$(STAMPS)/bmc) ## pytest, no lab needed (PYTEST_ARGS for a part)
	@mkdir -p $(BUILD)/reports
	$(PYTEST) -n 2 $(SPREAD) -m "not lab$(NOT_FULL)" --junit-xml=$(BUILD)/reports/unit.xml $(PYTEST_ARGS) $(call tests,tests/unit tests/lab/tests)

# Two runs of molecule: within one, either all scenarios share the lab of `default`, or none does.
SCENARIOS := $(notdir $(patsubst %/molecule.yml,%,$(sort $(wildcard extensions/molecule/*/molecule.yml))))
SCENARIOS_SIMULATOR := $(filter kubevirt_%,$(SCENARIOS))
SCENARIOS_LAB := $(filter-out default $(SCENARIOS_SIMULATOR),$(SCENARIOS))
# A restore's scenario drains first; a roll has both, and the preflight.
RUN_SIMULATOR := $(if $(QUICK),kubevirt_restore,$(SCENARIOS_SIMULATOR))
RUN_LAB := $(if $(QUICK),restore,$(SCENARIOS_LAB))

kubevirt: venv ## the KubeVirt side over HTTP against the simulator, and the simulator against recorded answers
	@mkdir -p $(BUILD)/reports
	$(PYTEST) $(SPREAD) -n $(if $(QUICK),6 -m "not full",4) --junit-xml=$(BUILD)/reports/kubevirt.xml $(PYTEST_ARGS) \
		$(call tests,tests/kubevirt tests/kubesim/tests)

molecule-kubevirt: venv ## the roles by molecule, on the simulator
	molecule test $(RUN_SIMULATOR:%=-s %) --no-command-borders $(MOLECULE_ARGS)

# A cluster for tests: nodes n1, n2 and n3 (for the scenarios the three of VIRTOPS_NODES), no VMs of
# others on them. What needs the simulator, agents that obey knobs (VIRTOPS_KNOBS=1) or a real guest
# (VIRTOPS_GUEST=1, VIRTOPS_IMAGE; the scenarios do) is skipped, said and counted: tests/kubesim/given.py. Of what
# passes, the last line tells apart what asked the cluster and what did not.
integration-kubevirt: venv ## the same checks against any cluster: make integration-kubevirt KUBECONFIG=file
	@test -n "$(KUBECONFIG)" || { echo "integration-kubevirt: KUBECONFIG=... names the cluster"; exit 2; }
	@mkdir -p $(BUILD)/reports
	@test -n "$(VIRTOPS_GUEST)" || echo "integration-kubevirt: the scenarios $(SCENARIOS_SIMULATOR) need a real guest: VIRTOPS_GUEST"
	test -z "$(VIRTOPS_GUEST)" || VIRTOPS_KUBECONFIG=$(abspath $(KUBECONFIG)) molecule test $(SCENARIOS_SIMULATOR:%=-s %) --no-command-borders $(MOLECULE_ARGS)
	VIRTOPS_KUBECONFIG=$(abspath $(KUBECONFIG)) $(PYTEST) -rs --junit-xml=$(BUILD)/reports/integration-kubevirt.xml \
		$(PYTEST_ARGS) $(call tests,tests/kubevirt)

# One worker: what beside it takes the cores, a migration does not have.
integration: deps ## pytest on the lab's real libvirt hosts
	@mkdir -p $(BUILD)/reports
	$(PYTEST) -m "lab$(NOT_FULL)" --junit-xml=$(BUILD)/reports/integration.xml $(PYTEST_ARGS) $(call tests,tests/integration tests/lab/tests)

# What differs most between two releases: how dirty rates are measured, and what keeps a VM.
ON_TRIXIE := dirty_rate reasons_devices
integration-trixie: export RELEASE := trixie
integration-trixie: export VIRTOPS_RELEASE := trixie
integration-trixie: deps ## a part of the same on hosts of Debian 13
	@mkdir -p $(BUILD)/reports
	$(PYTEST) -m "lab$(NOT_FULL)" --junit-xml=$(BUILD)/reports/integration-trixie.xml $(PYTEST_ARGS) \
		$(call tests,$(ON_TRIXIE:%=tests/integration/test_%.py))

molecule-lab: deps ## the roles by molecule, on the lab
	@if lacking=$$($(RUN) -m lab missing) || [ "$${VIRTOPS_REQUIRE_LAB:-}" = 1 ]; then \
		molecule test $(RUN_LAB:%=-s %) --no-command-borders $(MOLECULE_ARGS); \
	else echo "skipped: the molecule scenarios $(RUN_LAB): the lab cannot run here: $$lacking"; fi

sabotage: deps ## plant faults in the product and the lab; each must be caught by a test
	nice -n 10 env $(RUN) tests/sabotage/run.py $(if $(QUICK),--changed) $(SABOTAGE_ARGS)

##@ The lab

demo: export MAKE_BEGAN := $(shell date +%s)
demo: deps ## drain three libvirt hosts in turn, with reboots, and prove that no VM was hurt
	$(RUN) tests/demo/run.py $(DEMO_ARGS)

demo-upgrade: export RELEASE := trixie
demo-upgrade: deps ## upgrade three libvirt hosts from this Debian to 13, one by one (UPGRADE_ARGS=--fails: it fails on the second at first)
	$(RUN) tests/demo/upgrade.py $(UPGRADE_ARGS)

recover-demo: deps ## a libvirt host with eight guests dies; they run elsewhere, it comes back, and nothing runs twice
	$(RUN) tests/recover/demo.py

postcopy-demo: deps ## the link breaks while a guest is in post-copy, for 3, 30 and 120 s: it is resumed, with its memory right (7 minutes)
	$(RUN) tests/postcopy/demo.py

converge-demo: deps ## forty guests of which half write faster than the link: which is known, and what becomes of them (a quarter of an hour)
	$(RUN) tests/converge/demo.py

recover-demo-kubevirt: venv ## a node of a simulated cluster dies; its VMs run elsewhere, it comes back, and nothing runs twice
	$(RUN) tests/recover/demo_kubevirt.py

test-fencing: deps ## what proves that a libvirt host is off, and what does not: cases in the lab, seeded tries on the bed
	$(RUN) tests/recover/fencing.py

demo-kubevirt: venv ## roll the maintenance over three nodes of a simulated cluster, counted by its log
	$(PY) tests/demo_kubevirt/run.py

lab-up: deps ## three real libvirt hosts on this machine
	$(RUN) -m lab up

lab-down: venv ## end them, whatever state they are in
	$(RUN) -m lab down

test-kill: deps ## kill the run at 20 moments; the same command again must carry on
	$(RUN) tests/cancel/run.py $@ $(KILL_ARGS)

test-cancel: deps ## cancel 80 rolls in every way; the same command again carries on, or abort.yml gives back
	$(RUN) tests/cancel/run.py $@ $(CANCEL_ARGS)

chaos: deps ## what happens to a simulated cluster in the middle of a drain or a roll (CASES=40 SEED=S; half an hour), or, CHAOS_ARGS="--on lab", to libvirt hosts (an hour)
	$(RUN) tests/chaos/run.py $(CASES:%=--cases %) $(SEED:%=--seed %) $(CHAOS_ARGS)

perturb: venv ## a fleet in memory: each scenario once for each point of it and each fault of order (half an hour)
	$(RUN) tests/perturb/run.py $(PERTURB_ARGS)

small-world: venv ## two hosts, two VMs, each interleaving: every command comes to an end (hours; SMALL_WORLD_ARGS="--minutes 60")
	$(RUN) tests/perturb/small_world.py $(SMALL_WORLD_ARGS)

test-two-rolls: deps ## begin two rolls at the same moment, 110 times: one wins
	$(RUN) tests/cancel/run.py $@ $(TWO_ROLLS_ARGS)

cases: deps ## small inputs that went wrong once, each with its right answer, on lab and simulator (CASES_ARGS="l1 k3")
	$(RUN) -m cases.run $(CASES_ARGS)

test-fleet: export MAKE_BEGAN := $(shell date +%s)
test-fleet: deps ## 24 hosts, one off, one that dies, three drained meanwhile: what was lost, and left
	$(RUN) tests/fleet/run.py $(FLEET_ARGS)

test-predict: deps ## five real drains on the lab against the duration that the plan gave (5 minutes)
	$(RUN) tests/bench/predict.py $(PREDICT_ARGS)

bench-libvirt: deps ## against virsh loops, on the same machine (some 33 minutes)
	$(RUN) tests/bench/libvirt_drain.py $(BENCH_ARGS)

bench-plan: venv ## the plan of a roll of 200 and of 1,000 hosts, against a bound and FIFO (BENCH_ARGS)
	$(RUN) -m bench.plan_bench $(BENCH_ARGS)

bench-converge: venv ## 2,000 guests in memory: who does not converge is recognised, the others are left alone (a minute)
	$(RUN) -m bench.converge $(BENCH_ARGS)

bench-roll: deps ## a roll against its plan and a bound: 40 hosts in memory, 5 on the lab; and what Ansible costs for a host
	$(RUN) tests/bench/roll.py $(BENCH_ARGS)

bench-calls: venv ## kB and processor seconds of a call of a module before it does anything (a minute, as root)
	$(RUN) tests/bench/calls.py $(BENCH_ARGS)

bench-slice: deps ## seconds, MB and connections of a slice: 60 libvirtd, and 1,000 hosts on the model
	$(RUN) tests/bench/slices.py $(BENCH_ARGS)

bench-live: venv ## how late the line of a VM is in a drain on the simulator, and the seconds of the drain (5 minutes)
	$(RUN) tests/bench/live.py $(BENCH_ARGS)

bench-abort: deps ## seconds from the command abort until no migration runs; BENCH_ARGS="--on lab" for the lab
	$(RUN) tests/bench/aborts.py $(BENCH_ARGS)

bench-kubevirt: venv $(STAMPS)/peers ## against kubectl drain and k8s_drain, on one simulated server (15 minutes)
	$(PY) tests/bench/kubevirt.py $(BENCH_ARGS)

##@ Other

dist: venv ## the collection's tarball, in build/dist
	@tree=$$($(PY) $(TOOLS)/export_tree.py $(BUILD)/pack); rm -rf $(BUILD)/dist; \
	ansible-galaxy collection build --output-path $(BUILD)/dist "$$tree"

matrix: deps ## the tests on the oldest and the newest ansible-core and Python
	$(PY) $(TOOLS)/matrix.py $(MATRIX_ARGS)

release: venv ## VERSION=0.1.0: changelog, version, importer, commit and tag; pushes nothing
	$(TOOLS)/release "$(VERSION)"

test-release: dist ## install the tarball where this clone is not, read its docs, run its playbooks
	$(RUN) tests/release/run.py

clean: ## remove everything that was made (ends the lab first)
	@if [ -e tests/lab/__main__.py ] && [ -x $(PY) ]; then $(MAKE) --no-print-directory lab-down; fi
	rm -rf $(BUILD)

help: ## this
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv deps debs test test-all gate steady tiers molecule-kubevirt molecule-lab lint $(LINTS) docs picture reference public-names format sanity unit kubevirt integration integration-trixie sabotage demo demo-upgrade recover-demo recover-demo-kubevirt postcopy-demo converge-demo test-fencing demo-kubevirt \
	lab-up lab-down test-kill test-cancel chaos perturb small-world test-two-rolls cases test-fleet test-predict bench-libvirt bench-plan bench-converge bench-roll bench-calls bench-slice bench-live bench-abort bench-kubevirt integration-kubevirt golden matrix dist release test-release clean help
