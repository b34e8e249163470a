# Rota: `make demo` and `make test` need only Go, git and make; each does its own set-up. `make help` lists everything.

SHELL     := /bin/bash
.SHELLFLAGS := -euo pipefail -c
GO        ?= go
COMMIT    ?= $(shell git describe --always --dirty --exclude "*" 2>/dev/null)
LDFLAGS   := -s -w -X github.com/rota-hpc/rota/controld/api.commit=$(COMMIT)
# go-nvml wraps every function of NVML, also those that NVIDIA has marked as deprecated.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
# The laboratory is a module of its own. $(call lab,NAME) builds its program cmd/lab/NAME as bin/rota-NAME.
LAB       := cmd/lab
lab        = CGO_ENABLED=$(or $(2),0) $(GO) build -C $(LAB) -trimpath -ldflags '$(LDFLAGS)' -o '$(CURDIR)/bin/rota-$(1)' ./$(1)
LINT      := bin/golangci-lint
LINT_VERSION := v2.6.2
VULNCHECK    := bin/govulncheck
VULNCHECK_VERSION := v1.9.0
NFPM         := bin/nfpm
NFPM_VERSION := v2.45.2
# What tests and the demo need beside Go: a C compiler and libseccomp for cgo, ip and iptables for test networks, runc and busybox for conformance,
# and the command module.
PACKAGES  := gcc libc6-dev pkg-config libseccomp-dev iproute2 iptables runc busybox-static environment-modules libnss-extrausers
TOOLS     := gcc pkg-config libseccomp.pc ip iptables runc busybox modulecmd libnss_extrausers.so.2

.DEFAULT_GOAL := help
.PHONY: help setup packages repo release test-packages test-installed test-torch criu build test check same lint demo test-browser race chaos prove vm-test vm-test-systemd bench papers families figures third-party fuzz golden mutants cover clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what building and testing need (as root), or say what is missing
	@.ci/setup "$(PACKAGES)" "$(TOOLS)"

build: setup ## build every program into bin/
	CGO_ENABLED=0 $(GO) build -tags urfave_cli_no_docs -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/rota ./cmd/rota-controld ./cmd/rota-init ./examples/trainer
	CGO_ENABLED=1 $(GO) build -tags seccomp -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/rota-noded ./cmd/rota-shim

# How long the tests of one package may take; 25m and 60m if it is not set.
TEST_TIMEOUT ?=

test: build ## run every test; those that need root run when you are root. TEST_TIMEOUT=20m gives each package more time
	$(GO) vet ./...
	$(GO) vet -C $(LAB) ./...
	@GO="$(GO)" .ci/test $(or $(TEST_TIMEOUT),25m) "make test" ./...

BROWSER ?= chromium-headless-shell
test-browser: ## a real browser opens pages that try to submit jobs; needs Debian's chromium-headless-shell or chromium
	ROTA_TEST_BROWSER=$$(command -v $(BROWSER) || command -v chromium) $(GO) test -count=1 -v -run 'TestBrowser$$' ./controld

race: build ## the same under the race detector, with longer random histories: for every night
	@ROTA_TEST_LONG=1 GO="$(GO)" .ci/test $(or $(TEST_TIMEOUT),60m) "make race" -race ./...

BUILDS ?= /var/tmp/rota-packages
test-installed: setup $(NFPM) ## install packages on machines that boot systemd (systemd-nspawn), as root: the first day, upgrades, removal; BUILDS=DIR keeps what is built
	@.ci/setup "debootstrap systemd-container iproute2" "debootstrap systemd-nspawn ip"
	@GO="$(GO)" packaging/builds-for-tests $(BUILDS)
	ROTA_TEST_PACKAGES=$(abspath $(BUILDS)) $(GO) test -C $(LAB) -count=1 -v -timeout 30m -run 'TestFirstDay|TestPackagesOnMachines|TestRestartsUnderLoad' ./e2e

test-torch: setup ## a PyTorch training is resized, preempted and moved, and OpenMPI's mpirun runs, as root; installs both (minutes); prints how long saving and resuming take
	@.ci/setup "python3-torch openmpi-bin python3-mpi4py" "torchrun mpirun"
	ROTA_TEST_TORCH=1 $(GO) test -C $(LAB) -count=1 -v -timeout 180m -run 'TestPyTorch|TestMPIRun|TestTorchExample' ./e2e

CRIU_RELEASE ?= trixie
criu: ## put a criu that works into bin/, for the tests that save containers: the machine's from 4.0 on, else that of Debian's release CRIU_RELEASE; installs nothing (seconds)
	@.ci/criu bin/criu $(CRIU_RELEASE)

chaos: build ## real daemons under a seeded schedule of faults, as root: SEED=1 MINUTES=2, KEEP=DIR for logs, ONLY=kill-leader,pause
	$(call lab,chaos)
	bin/rota-chaos -seed $(or $(SEED),0) -minutes $(or $(MINUTES),2) $(if $(KEEP),-keep $(KEEP)) $(if $(ONLY),-only $(ONLY))

prove: build ## real daemons, containers and a seeded stream of jobs while leaders are killed, as root; each property has a line: SEED=1 MINUTES=3, SHARING=0 without jobs that share GPUs, KEEP=DIR for logs
	$(call lab,prove)
	bin/rota-prove -seed $(or $(SEED),0) -minutes $(or $(MINUTES),3) $(if $(SHARING),-sharing $(SHARING)) $(if $(KEEP),-keep $(KEEP))

VM_PACKAGES ?=
vm-test: setup ## the node's tests on cgroup version 2 alone: boots Debian's kernel in qemu, without KVM; VM_PACKAGES=./noded/shim RUN=PATTERN some of them, VM_TIMEOUT=15m on a busy machine, KEEP=DIR for the kernel's messages
	@.ci/setup "qemu-system-x86" "qemu-system-x86_64"
	$(call lab,vmtest)
	bin/rota-vmtest -timeout $(or $(VM_TIMEOUT),5m) $(if $(KEEP),-keep $(KEEP)) $(if $(RUN),-run '$(RUN)') $(VM_PACKAGES)

vm-test-systemd: ## boot Debian with systemd in qemu, as root, and ask whether it leaves the cgroups of jobs alone
	@.ci/setup "qemu-system-x86 debootstrap e2fsprogs" "qemu-system-x86_64 debootstrap mke2fs"
	$(call lab,vmtest)
	@VM_TIMEOUT=$(or $(VM_TIMEOUT),5m) .ci/vm-systemd "$$(bin/rota-vmtest -fetch)" bin/vmtest/debian

check: lint $(VULNCHECK) ## of both modules: gofmt, vet, lint, import rules, tidy, known vulnerabilities (says so where their database is out of reach)
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt-ed:"; echo "$$unformatted"; exit 1; }
	$(GO) test -count=1 -run 'TestImports|TestModulesAgree' .
	for module in . $(LAB); do $(GO) vet -C $$module ./...; $(GO) mod -C $$module verify; $(GO) mod -C $$module tidy -diff; done
	@.ci/vulnerabilities $(VULNCHECK)

REF ?= HEAD
same: ## compare what this tree decides with what commit REF decides, on twenty workloads under all policies
	@.ci/same $(REF)

lint: $(LINT)
	for module in . $(LAB); do (cd $$module; '$(CURDIR)/$(LINT)' run); done

$(LINT):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(VULNCHECK):
	GOBIN=$(CURDIR)/bin $(GO) install golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION)

$(NFPM):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)

# Of a pre-release unless it is set: the release that the source leads to, and the number of commits.
VERSION ?=
packages: $(NFPM) ## build deb and rpm packages for amd64 and arm64 into dist/VERSION: VERSION=0.1.0~1, ARCHS=amd64, FORMATS=deb, SIGN_KEY=FILE
	@GO="$(GO)" packaging/build $(VERSION)

repo: ## make signed repositories for apt and dnf of dist/VERSION: SIGN_KEY=FILE of a secret key of gpg
	@packaging/repo $(VERSION)

release: $(NFPM) ## packages, repositories and SHA256SUMS of one version, from a clean tree: VERSION=0.1.0~1 SIGN_KEY=FILE
	@GO="$(GO)" packaging/release $(VERSION)

test-packages: setup $(NFPM) ## build the packages for amd64 twice, and check, install and remove them in a root below /tmp, as root
	@GO="$(GO)" packaging/test

demo: build ## a one-machine cluster, a training job on it, and its accounting record
	@.ci/demo

bench: build ## measure; writes bench.json and prints a table
	$(call lab,bench,1)
	bin/rota-bench -out bench.json

papers: build ## write the tables of cmd/lab/papers.md anew (some minutes); ROTA_TRACES names the folder of the traces, SECTION a word of one section's title
	$(call lab,papers)
	bin/rota-papers cmd/lab/papers.md $(if $(SECTION),"$(SECTION)")

families: N      = 12
families: POLICY = rota
families: ## judge a policy by N drawn workloads, against the best of backfill, las and fairshare: N=12 SEED=1 POLICY=rota JOBS=400 of each QUOTAS=1 with quotas; DRAW=K prints the rota sim command that repeats draw K, JSON=1 prints JSON
	@$(call lab,families)
	@bin/rota-families -n $(N) -seed $(or $(SEED),1) -policy '$(POLICY)' -jobs $(or $(JOBS),0) $(if $(DRAW),-draw $(DRAW)) $(if $(QUOTAS),-quotas) $(if $(JSON),-json)

figures: ## print how large the product's code is: lines, tokens, files in reference cycles, methods of the largest types
	@$(call lab,figures)
	@bin/rota-figures

third-party: ## write packaging/THIRD_PARTY_LICENSES.md: the licences of the modules that are linked into the programs
	@$(call lab,licences)
	bin/rota-licences packaging/THIRD_PARTY_LICENSES.md

N       ?= 200
FIRST   ?= 1
mutants: ## change one thing at a time in package PKG, N times, and list what its tests do not notice: PKG=./consensus N=200 SEED=1 MINUTES=60; TESTS="./a ./b" asks the tests of other packages, RUN=PATTERN some of them only; FIRST=I goes on with mutant I of the sample; AGAIN=FILE tries only the survivors that the output of an earlier run lists
	@[ -n "$(PKG)" ] || { echo "say which package: make mutants PKG=./controld/api [N=200] [SEED=1] [MINUTES=60] [FIRST=1] [TESTS=...]"; exit 2; }
	@$(call lab,mutants)
	@bin/rota-mutants -n $(N) -first $(FIRST) -seed $(or $(SEED),1) -limit $(or $(MINUTES),60)m -tests "$(TESTS)" -run '$(RUN)' -again '$(AGAIN)' $(PKG)

cover: ## measure which statements the tests run, and write the table of cmd/lab/coverage.md; PKG=./consensus/... measures some packages only
	@$(call lab,cover)
	@bin/rota-cover -timeout $(or $(TEST_TIMEOUT),15m) cmd/lab/coverage.md $(or $(PKG),./...)

FUZZTIME ?= 20s
fuzz: ## run every fuzz target for FUZZTIME
	@for module in . $(LAB); do $(GO) list -C $$module -f '{{.Dir}}' ./...; done | while read -r dir; do \
	  for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go 2>/dev/null | cut -c6-); do \
	    echo "== $$target ($$dir)"; (cd "$$dir" && $(GO) test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) .); \
	  done; done

golden: ## rewrite golden files; read the diff afterwards
	@for p in $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -n1 dirname | sort -u); do $(GO) test -C "$$p" . -update; done

clean: ## remove what was built
	rm -rf bin dist bench.json
