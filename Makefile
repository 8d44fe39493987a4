# `make` builds bin/drey, bin/wordcount and checks everything that needs only Go.
# DREY_INTEROP=1 makes the tests that need real Flink or S3 servers mandatory; see .ci/run.

GO         ?= go
CACHE      ?= $(or $(DREY_CACHE),$(HOME)/.cache/drey)
LINT_VERSION = v2.15.0
LINT       = $(CACHE)/golangci-lint-$(LINT_VERSION)/golangci-lint
# A number of runs, as a limit of time makes the fuzzer itself fail now and then ("context deadline exceeded").
FUZZTIME   ?= 40000x
# The tests of interop spend their time in the JVM; the race detector has nothing to find there.
RACE_PKGS  = $$($(GO) list ./... | grep -v /interop)

.PHONY: all bin check fmt vet lint test race large soak fuzz golden bench bench-flink bench-restore bench-audit interop interop-build

all: bin check

bin:
	$(GO) build -o bin/ ./tools/drey ./runtime/wordcount

check: fmt vet lint test race fuzz golden

fmt:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$bad" || { echo "gofmt: $$bad"; exit 1; }

vet:
	$(GO) vet ./...

lint: $(LINT)
	$(LINT) run --allow-parallel-runners ./...

$(LINT):
	GOBIN=$(dir $(LINT)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

test:
	$(GO) test ./...

# By default every process sleeps a second at its end; the tests of the command start hundreds. Short: a fifth of the random histories
# that are compared with models; all of them run without the detector.
race:
	GORACE=atexit_sleep_ms=0 $(GO) test -race -short -timeout 60m $(RACE_PKGS)

# Values, lists and keys near 2^31 bytes, one after the other: takes 16 GiB of memory.
large:
	DREY_LARGE=1 $(GO) test -count=1 -p 1 -timeout 60m -run TestLarge -v ./backend/heap ./backend/pebble

# 500 checkpoints of a million keys, with everything that can happen to a job; see TestSoak.
soak:
	DREY_SOAK=1 $(GO) test -count=1 -timeout 60m -run '^TestSoak$$' -v ./tools

# Every fuzz target for a short while, from the checked-in seeds.
fuzz:
	@for f in $$(grep -ho 'func Fuzz[A-Za-z0-9]*' fuzz/*_test.go | cut -c6-); do \
		$(GO) test ./fuzz -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x || exit 1; done

# Rewrites the expected output of the command tests; a diff then means that it changed.
golden:
	$(GO) test ./tools/drey -run TestScript -update
	@git diff --exit-code -- tools/drey/testdata/script

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./backend/... ./incremental ./localrecovery ./metadata ./rewrite ./runtime ./serializer ./storage/... ./tools

# KEYS=5000000 for the figures of the README; run-backend.sh alone compares the state backends.
bench-flink:
	interop/bench/run-metadata.sh
	interop/bench/run-state.sh
	interop/bench/run-backend.sh
	interop/bench/run-incremental.sh
	interop/bench/run-job.sh
	interop/bench/run-convert.sh

# From local copies beside an S3 server; with the variables of .ci/s3-servers.
bench-restore:
	interop/bench/run-restore.sh

# A million files beside find and rclone; on S3, too, with the variables of .ci/s3-servers.
bench-audit:
	interop/bench/run-audit.sh

interop-build:
	interop/build.sh

interop: interop-build
	vars=$$(.ci/s3-servers) && eval "$$vars" && DREY_INTEROP=1 $(GO) test -count=1 -timeout 60m -v ./interop/...
