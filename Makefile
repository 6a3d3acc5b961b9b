# Each target sets up what it needs in .venv and does nothing twice. `make` or `make help` lists them.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
PAGES := $(shell find _config.yml _toc.yml index.md pages chapters labs assessments assets templates data utils tools \
	-type f -not -path '*/__pycache__/*' 2>/dev/null)

.PHONY: help book serve lab test test-threads notebooks student grade clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "make %-13s %s\n", $$1, $$2}'

book: _build/book.stamp  ## build the site into _build/html (no torch needed)
	@echo "The book: file://$(CURDIR)/_build/html/index.html"

serve: book  ## build the site and serve it at http://127.0.0.1:8000
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

lab: .venv/full.stamp  ## install everything and open JupyterLab
	$(PY) -m jupyterlab

test: .venv/full.stamp  ## run all tests; PARTS="unit site" runs some of them
	$(PY) -m tools.run_tests $(PARTS)

test-threads: .venv/full.stamp  ## compare all notebooks once more, with 2 threads a kernel
	$(PY) -m tools.run_tests nbval --threads 2

notebooks: .venv/full.stamp  ## run again what changed; NAMES="01 labs/1" or NAMES=--all chooses
	$(PY) -m tools.notebooks $(NAMES)

student: .venv/full.stamp  ## dist/attention-insights-student.zip, without solutions
	$(PY) -m tools.student

grade: .venv/full.stamp  ## grade the notebooks in DIR: grades.csv and grades-summary.csv
	$(PY) -m tools.grade $(or $(DIR),$(error say which folder: make grade DIR=submissions))

clean:  ## remove the built site and what the targets installed
	rm -rf _build dist .venv

_build/book.stamp: pyproject.toml constraints.txt $(PAGES) | .venv/site.stamp
	$(PY) -m tools.book

.venv/site.stamp: pyproject.toml constraints.txt | $(PY)
	$(PIP) install --quiet -c constraints.txt -e '.[site]'
	@touch $@

.venv/full.stamp: requirements.txt pyproject.toml constraints.txt | $(PY)
	$(PIP) install --quiet -r requirements.txt
	@touch $@ .venv/site.stamp

$(PY):
	$(or $(PYTHON),$(error Python 3.11 or newer is needed and none was found on the path)) -m venv .venv || (rm -rf .venv; exit 1)
