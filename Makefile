# Each target sets up what it needs by itself; the first run takes a minute or two.
#
#   make demo      one durable session from start to end, with a crash in between
#   make dev       the development stack, until Ctrl-C
#   make test      all tests, or one: make test T=tests/devstack
#   make lint      style, types and the arrows between packages
#   make bench     measures, into docs/performance.md
#   make mutants   breaks the code on purpose and shows which test notices
#   make lock      new versions into requirements.lock (needs uv)

BIN := .venv/bin
T ?= tests

.PHONY: demo dev test lint bench mutants lock setup clean

setup:
	@.ci/venv

demo: setup
	@$(BIN)/muster demo

dev: setup
	@$(BIN)/muster dev

# The server's program first: a build of some minutes inside a test would be silent.
test: setup
	@$(BIN)/python -m muster.devstack.prepare || true
	@$(BIN)/python -m pytest $(T)

# All of it runs, so that one look shows everything that is wrong.
lint: setup
	@failed=; \
	for check in "ruff check ." "ruff format --check ." "mypy -p muster -p tests -p bench" \
	    "lint-imports"; do \
	    echo "lint: $$check"; \
	    $(BIN)/$$check || failed="$$failed, $$check"; \
	done; \
	[ -z "$$failed" ] || { echo "lint: failed$${failed#,}" >&2; exit 1; }

bench: setup
	@$(BIN)/python -m bench

mutants: setup
	@$(BIN)/python -m tests.faults.mutants

lock:
	uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --no-annotate --no-header --upgrade \
	    pyproject.toml -o requirements.lock
	@sed -i '1i # Exact versions with hashes for Python 3.11 to 3.13. Written by `make lock`; not to be edited.' \
	    requirements.lock

clean:
	rm -rf .venv .venv.log build dist
