# laplaced: one Makefile, non-recursive. `make help` lists the targets.
# MODE=release|debug|asan|tsan|walk selects a build below build/MODE/; release binaries are also linked as build/laplaced,
# build/laplacectl and build/paperbench.

MODE ?= release
BUILD ?= build
OUT := $(BUILD)/$(MODE)
CC ?= gcc
# The C++ compiler beside CC: a few files use C++ libraries behind a header in C.
CXX := $(patsubst gcc%,g++%,$(patsubst clang%,clang++%,$(patsubst cc,c++,$(CC))))
PYTHON ?= /usr/bin/python3
# What a goal compiles first is compiled on all processors, unless make was told how many (-j).
ON_ALL = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
WERROR ?=
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wold-style-definition -Wformat=2 -Wcast-align \
        -Wundef -Wvla -Wdouble-promotion $(WERROR)
OPT_release := -O2 -ftree-vectorize -g
OPT_debug := -O0 -g
OPT_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan := -O1 -g -fsanitize=thread
OPT_walk := -O0 -g -fno-pie
OPT_fuzz := -O1 -g -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(WARN) -ffp-contract=off -fno-math-errno $(OPT_$(MODE)) -MMD -MP $(CFLAGS)
C_WARN := -Wstrict-prototypes -Wold-style-definition
CXXFLAGS_ALL := -std=c++17 -fno-exceptions -fno-rtti $(filter-out -std=% $(C_WARN),$(CFLAGS_ALL)) $(CXXFLAGS)
LDFLAGS_ALL := $(filter -fsanitize% -g,$(OPT_$(MODE))) $(LDFLAGS)

CORE_LIBS := -llbfgs -llapacke -lopenblas -lm
SERVER_LIBS := -lmicrohttpd -ljansson -lsqlite3 -luv -lsodium -lgnutls -lstdc++ $(CORE_LIBS) -lpthread
# PostgreSQL keeps the log that several servers share (--log). `make WITHOUT_PG=1` leaves it out.
ifeq ($(WITHOUT_PG),)
SERVER_LIBS += -lpq
PG_INCLUDE ?= $(shell pg_config --includedir 2>/dev/null || echo /usr/include/postgresql)
LEFT_OUT := server/shared/pg_none.c
else
LEFT_OUT := $(filter-out %/pg_none.c,$(wildcard server/shared/pg_*.c))
endif
TOOL_LIBS := -lcurl -lz -lzstd $(SERVER_LIBS)

CORE_SRC := $(wildcard core/*/*.c)
SERVER_SRC := $(filter-out server/app/main.c $(LEFT_OUT),$(wildcard server/*/*.c server/*/*.cc))
CTL_SRC := $(wildcard $(addsuffix /*.c,$(addprefix tools/,common evaluate demo ctl)))
PAPER_SRC := $(wildcard tools/paper/*.c)
CORE_OBJ := $(CORE_SRC:%.c=$(OUT)/%.o)
SERVER_OBJ := $(addprefix $(OUT)/,$(addsuffix .o,$(basename $(SERVER_SRC)))) $(OUT)/embed.o $(OUT)/console_embed.o
CTL_OBJ := $(CTL_SRC:%.c=$(OUT)/%.o) $(OUT)/ctl_embed.o
CTL_LIB_OBJ := $(filter-out %/main.o,$(CTL_OBJ))
PAPER_OBJ := $(PAPER_SRC:%.c=$(OUT)/%.o)
PAPER_LIB_OBJ := $(filter-out %/main.o,$(PAPER_OBJ))

CORE_TESTS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/unit/*/test_*.c tests/property/*/test_*.c))
SERVER_TESTS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/server/*/test_*.c)) $(OUT)/tests/server/json/judge
TOOL_TESTS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/tools/*/test_*.c))
PAPER_TESTS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/paper/test_*.c))
CLUSTER_TESTS := $(if $(WITHOUT_PG),,$(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/cluster/test_*.c)))
FUZZ_TESTS := $(OUT)/tests/fuzz/test_corpus
FUZZ_OBJ := $(patsubst %.c,$(OUT)/%.o,$(wildcard tests/fuzz/fuzz_*.c) tests/fuzz/expect.c)
# The shared log in memory is the server's: core tests link without it.
TEST_SERVER_OBJ := $(OUT)/tests/lib/kbt_shared_log.o
TEST_LIB_OBJ := $(filter-out $(TEST_SERVER_OBJ),$(patsubst %.c,$(OUT)/%.o,$(wildcard tests/lib/*.c)))

.PHONY: all programs
programs: $(OUT)/laplaced $(OUT)/laplacectl # what is installed
all: programs $(OUT)/paperbench ## build build/laplaced, build/laplacectl and build/paperbench
ifeq ($(MODE),release)
	@ln -sf $(MODE)/laplaced $(BUILD)/laplaced
	@ln -sf $(MODE)/laplacectl $(BUILD)/laplacectl
	@ln -sf $(MODE)/paperbench $(BUILD)/paperbench
endif

$(OUT)/libkb.a: $(CORE_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(OUT)/libld.a: $(SERVER_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(OUT)/laplaced: $(OUT)/server/app/main.o $(OUT)/libld.a $(OUT)/libkb.a
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(SERVER_LIBS)
$(OUT)/laplacectl: $(CTL_OBJ) $(OUT)/libld.a $(OUT)/libkb.a
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(TOOL_LIBS)
$(OUT)/paperbench: $(PAPER_OBJ) $(OUT)/libkb.a
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -ljansson $(CORE_LIBS)

$(OUT)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -iquote server -iquote tools -iquote tests/lib -c -o $@ $<
$(OUT)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS_ALL) -iquote core -iquote server -c -o $@ $<
$(OUT)/tests/bench/%.o: tests/bench/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -iquote tools -c -o $@ $<
$(OUT)/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -c -o $@ $<
ifeq ($(MODE),walk)
# Each function of the server tells tests/walk/trace.c that it was entered; addresses are those of the file.
$(SERVER_OBJ): CFLAGS_ALL += -finstrument-functions
$(OUT)/laplaced: LDFLAGS_ALL += -no-pie
$(OUT)/laplaced: $(OUT)/tests/walk/trace.o
endif
$(OUT)/server/shared/pg_%.o: CFLAGS_ALL += -isystem $(PG_INCLUDE)
$(OUT)/core/linalg/lower_solve.o $(OUT)/core/linalg/tiled.o: CFLAGS_ALL += -ffp-contract=fast # sums of products alone: one instruction for both

# Migrations, the API contract and the page of errors, embedded as C strings (symbols in server/embed.h).
EMBED := schema/0001_tenant.sql schema/0002_summary.sql schema/0003_pieces.sql schema/0004_books.sql schema/0005_reward_ids.sql schema/0006_types.sql schema/0007_metrics.sql schema/0008_evaluations.sql schema/0009_copies.sql schema/0010_generations.sql schema/registry_0001.sql schema/registry_0002.sql schema/registry_0003.sql schema/registry_0004.sql schema/shared_0001.sql schema/shared_0002.sql schema/shared_0003.sql schema/shared_0004.sql schema/shared_0005.sql openapi.yaml openapi-3.0.yaml docs/ERRORS.md
$(OUT)/embed.c: $(EMBED) tools/embed.sh
	@mkdir -p $(@D)
	sh tools/embed.sh $(EMBED) > $@.tmp && mv $@.tmp $@
# The console, as a table of files.
CONSOLE := $(sort $(wildcard server/console/*.html server/console/*.css server/console/*.js server/console/*.svg))
$(OUT)/console_embed.c: $(CONSOLE) tools/embed.sh
	@mkdir -p $(@D)
	sh tools/embed.sh --table console $(CONSOLE) > $@.tmp && mv $@.tmp $@
# The script and the style of the page of `laplacectl evaluate` (tools/evaluate/report_page.c).
CTL_EMBED := tools/evaluate/page.css tools/evaluate/page.js
$(OUT)/ctl_embed.c: $(CTL_EMBED) tools/embed.sh
	@mkdir -p $(@D)
	sh tools/embed.sh $(CTL_EMBED) > $@.tmp && mv $@.tmp $@
$(OUT)/embed.o $(OUT)/ctl_embed.o $(OUT)/console_embed.o: %.o: %.c
	$(CC) -std=c11 -O1 -iquote server -c -o $@ $<

# A program of tests is compiled, then linked, so that a change of a library compiles no test anew. Core tests link the core and
# BLAS alone: a leak of layers fails at link time.
TEST_FLAGS := $(CFLAGS_ALL) -iquote core -iquote tests/lib
CHECK_LIBS := -lcheck -lsubunit -lrt -lpthread
COVERAGE := $(OUT)/tests/coverage/coverage $(OUT)/tests/peeking/peeking $(OUT)/tests/quality/regret
C_TESTS := $(CORE_TESTS) $(SERVER_TESTS) $(TOOL_TESTS) $(PAPER_TESTS) $(CLUSTER_TESTS) $(FUZZ_TESTS) $(COVERAGE)
$(C_TESTS:=.o): $(OUT)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) $(TEST_ROOTS) -c -o $@ $<
$(C_TESTS): %: %.o $(TEST_LIB_OBJ) $(OUT)/libkb.a
	$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o %/libld.a,$^) $(OUT)/libkb.a $(CHECK_LIBS) $(TEST_LIBS)
$(CORE_TESTS) $(COVERAGE): TEST_LIBS = $(CORE_LIBS)
$(PAPER_TESTS): TEST_LIBS = -ljansson $(CORE_LIBS)
$(SERVER_TESTS) $(CLUSTER_TESTS) $(FUZZ_TESTS): TEST_LIBS = $(SERVER_LIBS)
$(SERVER_TESTS:=.o) $(FUZZ_TESTS:=.o): TEST_ROOTS = -iquote server
$(CLUSTER_TESTS:=.o): TEST_ROOTS = -iquote server -isystem $(PG_INCLUDE)
$(TOOL_TESTS): TEST_LIBS = $(TOOL_LIBS)
$(TOOL_TESTS:=.o): TEST_ROOTS = -iquote server -iquote tools -iquote tests/bench
$(PAPER_TESTS:=.o): TEST_ROOTS = -iquote tools
$(TOOL_TESTS): $(CTL_LIB_OBJ)
$(PAPER_TESTS): $(PAPER_LIB_OBJ)
$(FUZZ_TESTS): $(FUZZ_OBJ)
$(SERVER_TESTS) $(CLUSTER_TESTS) $(TOOL_TESTS) $(FUZZ_TESTS): $(TEST_SERVER_OBJ) $(OUT)/libld.a
$(OUT)/tests/tools/bench/test_loop: $(OUT)/tests/bench/bench_loop.o $(OUT)/tests/bench/bench_machine.o
$(OUT)/tests/tools/bench/test_bench_kors: $(OUT)/tests/bench/bench_kors.o $(OUT)/tests/bench/bench_machine.o
# Under libFuzzer: MODE=fuzz CC=clang, by `make fuzz`.
$(OUT)/fuzz_%: tests/fuzz/entry.c $(FUZZ_OBJ) $(OUT)/libld.a $(OUT)/libkb.a
	$(CC) $(CFLAGS_ALL) -DTARGET=fuzz_$* -fsanitize=fuzzer $(LDFLAGS_ALL) -o $@ $^ $(SERVER_LIBS)

.PHONY: core-tests server-tests tool-tests paper-tests cluster-tests fuzz-tests c-tests
core-tests: $(CORE_TESTS)
server-tests: $(SERVER_TESTS)
tool-tests: $(TOOL_TESTS)
paper-tests: $(PAPER_TESTS)
cluster-tests: $(CLUSTER_TESTS)
fuzz-tests: $(FUZZ_TESTS)
c-tests: core-tests server-tests tool-tests paper-tests cluster-tests fuzz-tests

# ---- what people call -------------------------------------------------------------------------------

# What the goals need is installed before anything is made. make calls this for each goal that people are told of.
SETUP ?= sh tools/setup.sh
wants = $(if $(filter $(2),$(MAKECMDGOALS)),$(1))
lacks = $(if $(shell command -v $(1)),,$(2))
WANTED := $(strip $(call wants,--build,setup run run-cluster tour) $(call wants,--paper,paper) $(call wants,--league,league beside-vw) $(call wants,--fuzz,fuzz) $(call wants,--lint,lint) \
    $(call wants,--test,test test-% check-cluster acceptance-cluster run-cluster layers walks lint coverage peeking regret contract asan tsan fuzz soak soak-% bench bench-% league beside-vw) \
    $(call wants,--package,deb deb-before test-package test-hammered test-deb) $(call wants,--hammer,test-hammered) $(call wants,--patroni,check-cluster acceptance-cluster) $(call wants,--test --browser,console-pictures) $(call wants,--pages,pages install) $(call wants,--image,image test-image) \
    $(call wants,--proxies,test-proxies) $(call wants,--cluster,test-pg check-cluster acceptance-cluster run-cluster test-monitoring bench-scale bench-servers) $(call wants,--monitoring,test-monitoring) $(call lacks,valgrind,$(call wants,--bench,bench-check bench-record bench-alone)) $(call lacks,npm,$(call wants,--contract,contract)) \
    $(call lacks,clang-format,$(call wants,--lint,format format-check)))
ifneq ($(WANTED),)
$(shell $(SETUP) $(WANTED) >&2)
ifneq ($(.SHELLSTATUS),0)
$(error what these goals need is not there: $(SETUP) $(WANTED))
endif
endif

.PHONY: setup run run-cluster tour paper console-pictures test test-proxies test-room test-pg check-cluster acceptance-cluster test-unit test-property coverage peeking regret test-http contract test-monitoring test-crash test-power test-extremes fuzz soak soak-memory asan tsan lint layers walks format format-check bench bench-room bench-arms bench-names bench-spaces bench-threads bench-sweep bench-vw bench-graph bench-check bench-record bench-algorithms bench-stall bench-alone bench-commit bench-scale bench-servers bench-tenants bench-tls bench-checks league beside-vw docker image test-image pages install deb deb-before test-package test-hammered test-deb clean help
setup: ## install what building needs (apt; asks for root by sudo)
	@:
run: ## install what is missing, build, start the server on ./data and show it learning
	$(MAKE) $(ON_ALL) all
	sh tools/run.sh
run-cluster: ## three servers, PostgreSQL with standbys and HAProxy on this machine: a town learns while a server and the primary are killed
	$(MAKE) $(ON_ALL) all
	$(PYTHON) tools/run_cluster.py $(OUT) $(VISITS)
tour: ## A/B split with holdout, recommendations over a graph, and evaluation of the log, each with a figure: make tour TOUR_DATA=DIR keeps the data
	$(MAKE) $(ON_ALL) all
	TOUR_DATA="$(TOUR_DATA)" sh tools/tour.sh $(OUT)
paper: ## the papers' tables and figures into build/paper/: make paper ARGS="tc-table1 --reps 3" (ARGS=list names them)
	$(MAKE) $(ON_ALL) all
	$(OUT)/paperbench --out $(BUILD)/paper $(ARGS)
test: ## all tests: unit, property, server, tools, paper, HTTP; ends with "N passed, N failed"
	$(MAKE) $(ON_ALL) all c-tests
	sh tests/run.sh $(OUT)
test-unit: c-tests ## unit and property tests in C
	sh tests/run.sh $(OUT) c
test-room: $(foreach t,$(CORE_TESTS) $(SERVER_TESTS) $(TOOL_TESTS),$(if $(findstring /$(ROOM)/,$(t)),$(t))) ## C tests of one room: make test-room ROOM=graph
	sh tests/run.sh $(OUT) room $(ROOM)
test-pg: all $(CLUSTER_TESTS) ## the shared log against Debian's PostgreSQL, with a standby: every outcome of a commit, and laplacectl cluster
	sh tests/run.sh $(OUT) cluster
check-cluster: test-pg ## minutes: the same, then three servers on it: deaths of servers and of the primary, one service for whoever asks; CLUSTER_DEATHS=20
	sh tests/run.sh $(OUT) nodes
# What a release is judged by; QUICK=1 takes what CI has time for. Each count may be given: make acceptance-cluster PARTITIONS=10
DEATHS ?= $(if $(QUICK),10,300)
PRIMARY_DEATHS ?= $(if $(QUICK),1,20)
STOPS ?= $(if $(QUICK),2,20)
PARTITIONS ?= $(if $(QUICK),2,100)
POWER ?= $(if $(QUICK),2,20)
PATRONI_DEATHS ?= $(if $(QUICK),1,4)
BEHIND ?= $(if $(QUICK),20000,1000000)
TIMES ?= $(if $(QUICK),1,10)
acceptance-cluster: all ## an hour and a half: servers and primaries that die or stand still, networks that part and power that fails, under writers; as root; build/acceptance/cluster.jsonl; QUICK=1, PARTITIONS=10 CLUSTER_SEED=7
	@mkdir -p $(BUILD)/acceptance
	rm -f $(BUILD)/acceptance/cluster.jsonl
	CLUSTER_TALLY=$(abspath $(BUILD))/acceptance/cluster.jsonl CLUSTER_DEATHS=$(DEATHS) CLUSTER_PRIMARY_DEATHS=$(PRIMARY_DEATHS) CLUSTER_STOPS=$(STOPS) CLUSTER_PARTITIONS=$(PARTITIONS) CLUSTER_POWER=$(POWER) CLUSTER_PATRONI_DEATHS=$(PATRONI_DEATHS) CLUSTER_BEHIND=$(BEHIND) CLUSTER_TIMES=$(TIMES) \
	    sh tests/run.sh $(OUT) acceptance
	cat $(BUILD)/acceptance/cluster.jsonl
test-property: core-tests ## property tests over every preset
	sh tests/run.sh $(OUT) property
JOBS ?= 1
coverage: RUNS ?= 10
coverage: $(OUT)/tests/coverage/coverage ## minutes: bounds over kernels, noises, ridges, norms and representations, in runs that they steer; writes docs/COVERAGE.md: make coverage RUNS=10 JOBS=2
	@mkdir -p $(BUILD)/bench
	rm -f $(BUILD)/bench/coverage-*.jsonl
	seq 0 $$(($(JOBS) - 1)) | OPENBLAS_NUM_THREADS=1 xargs -P $(JOBS) -I @ sh -c '$< $(RUNS) $(JOBS) @ > $(BUILD)/bench/coverage-@.jsonl'
	cat $(BUILD)/bench/coverage-*.jsonl > $(BUILD)/bench/coverage.jsonl && rm $(BUILD)/bench/coverage-*.jsonl
	$(PYTHON) tests/coverage/table.py $(BUILD)/bench/coverage.jsonl --page docs/COVERAGE.md
peeking: RUNS ?= 2000
peeking: $(OUT)/tests/peeking/peeking ## minutes: what an experiment says, looked at after every decision of 2,000 runs a cell; writes docs/PEEKING.md: make peeking RUNS=2000 JOBS=2
	@mkdir -p $(BUILD)/bench
	rm -f $(BUILD)/bench/peeking-*.jsonl
	seq 0 $$(($(JOBS) - 1)) | OPENBLAS_NUM_THREADS=1 xargs -P $(JOBS) -I @ sh -c '$< $(RUNS) $(JOBS) @ > $(BUILD)/bench/peeking-@.jsonl'
	cat $(BUILD)/bench/peeking-*.jsonl > $(BUILD)/bench/peeking.jsonl && rm $(BUILD)/bench/peeking-*.jsonl
	$(PYTHON) tests/peeking/table.py $(BUILD)/bench/peeking.jsonl --page docs/PEEKING.md
console-pictures: ## pictures of the console's screens into docs/figures, of a server that has played real people: make console-pictures DATA=DIR (docs/DATA.md)
	$(MAKE) $(ON_ALL) all
	LAPLACED_BIN=$(abspath $(OUT))/laplaced LAPLACECTL_BIN=$(abspath $(OUT))/laplacectl $(PYTHON) tests/http/console_pictures.py $(DATA)
regret: SEEDS = 20
regret: $(OUT)/tests/quality/regret ## minutes: regret of the default row over 20 seeds, in the engine itself; writes docs/REGRET.md: make regret SEEDS=20 JOBS=2
	@mkdir -p $(BUILD)/bench
	rm -f $(BUILD)/bench/regret-*.jsonl
	seq 0 $$(($(JOBS) - 1)) | OPENBLAS_NUM_THREADS=1 xargs -P $(JOBS) -I @ sh -c '$< $(SEEDS) $(JOBS) @ > $(BUILD)/bench/regret-@.jsonl'
	$(PYTHON) tests/quality/table.py $(BUILD)/bench/regret-*.jsonl --page docs/REGRET.md
test-http: all $(OUT)/tests/server/json/judge ## tests over HTTP against openapi.yaml and dense oracles
	sh tests/run.sh $(OUT) http
contract: all ## openapi.yaml under linters, and a client generated from it at a live server (tools from npm, pinned)
	sh tests/contract/run.sh $(OUT)
test-proxies: all ## nginx, HAProxy and Caddy: the server behind them, and asked by them where a visitor goes: make test-proxies VISITS=10000
	LAPLACED_TEST_VISITS=$(or $(VISITS),10000) LAPLACED_BIN=$(OUT)/laplaced LAPLACECTL_BIN=$(OUT)/laplacectl $(PYTHON) -m pytest -q tests/http/r05_proxies.py tests/http/r06_route_proxies.py
test-monitoring: all ## minutes: Prometheus scrapes live servers: the dashboard's queries, and each alert with its fault, before it, and when it is mended
	LAPLACED_TEST_MONITORING=all LAPLACED_BIN=$(abspath $(OUT))/laplaced LAPLACECTL_BIN=$(abspath $(OUT))/laplacectl $(PYTHON) -m pytest -q tests/http/t30_deploy.py tests/http/t40_monitoring.py tests/http/t41_alerts_of_models.py
	LAPLACED_TEST_MONITORING=all LAPLACED_BIN=$(abspath $(OUT))/laplaced LAPLACECTL_BIN=$(abspath $(OUT))/laplacectl $(PYTHON) -m pytest -q tests/cluster/test_alerts.py
test-crash: all ## 200 kills under load: every acknowledged change stands once, the model equals a fresh fold
	LAPLACED_BIN=$(abspath $(OUT))/laplaced sh tests/crash/run.sh 200
COUNT ?= 300
test-extremes: all ## extreme numbers in every body and line, over every preset and in stories: make test-extremes SEED=1 COUNT=300
	LAPLACED_BIN=$(abspath $(OUT))/laplaced sh tests/extremes/run.sh $(COUNT)
test-power: all $(OUT)/tests/crash/power_trace.so ## 200 power cuts under load: each write that no sync covers kept, lost or torn, then what was acknowledged is looked for
	LAPLACED_BIN=$(abspath $(OUT))/laplaced sh tests/crash/power.sh 200
asan: ## C tests and the HTTP tests under AddressSanitizer and UBSan
	$(MAKE) $(ON_ALL) MODE=asan all c-tests
	sh tests/run.sh $(BUILD)/asan
tsan: ## C tests of the server under ThreadSanitizer
	$(MAKE) $(ON_ALL) MODE=tsan all server-tests
	sh tests/run.sh $(BUILD)/tsan server
TARGET ?= bodies
SECONDS ?= 60
fuzz: ## fuzz one target under clang's libFuzzer: make fuzz TARGET=bodies|values|log|shadow|snapshot|file|route SECONDS=60
	$(MAKE) $(ON_ALL) fuzz-tests
	$(MAKE) $(ON_ALL) MODE=fuzz CC=clang $(BUILD)/fuzz/fuzz_$(TARGET)
	sh tests/fuzz/run.sh $(BUILD) $(TARGET) $(SECONDS)
soak: ## malformed traffic against a build with ASan and UBSan, from several connections: make soak SECONDS=600
	$(MAKE) $(ON_ALL) MODE=asan all
	$(PYTHON) tests/soak/malformed.py $(BUILD)/asan/laplaced $(BUILD)/bench/soak.jsonl --seconds $(SECONDS)
soak-memory: all ## a million requests, malformed ones among them: whether memory stays flat
	$(PYTHON) tests/soak/memory.py $(OUT) $(BUILD)/bench/soak.jsonl $(ARGS)
layers: ## prove by includes which room knows which (tools/rooms.txt)
	$(PYTHON) tools/layers.py
walks: ## count the files that a /select and a /reward enter before the queue, in a server whose functions tell of themselves; they may only become fewer
	$(MAKE) $(ON_ALL) MODE=walk $(BUILD)/walk/laplaced
	$(PYTHON) tests/walk/walk.py $(BUILD)/walk check
lint: layers format-check ## layers, formatting, cppcheck, shellcheck
	shellcheck tools/*.sh tests/*.sh tests/*/*.sh .ci/run
	cppcheck --quiet --std=c11 -I core -I server -I tools --enable=warning,performance,portability --inline-suppr --error-exitcode=1 core server tools/common tools/evaluate tools/demo tools/ctl
	cppcheck --quiet --std=c11 -I core -I tools --enable=warning,performance,portability --inline-suppr --error-exitcode=1 tools/paper
FORMATTED = $(wildcard $(foreach f,core server tools tests,$(f)/*.[ch] $(f)/*/*.[ch] $(f)/*/*/*.[ch]) server/*.cc server/*/*.cc)
format: ## clang-format every C file
	clang-format -i $(FORMATTED)
format-check:
	clang-format --dry-run --Werror $(FORMATTED)
BENCH_LIB := $(patsubst %,$(OUT)/tests/bench/bench_%.o,machine kors subject flops http loop) $(OUT)/tools/common/histogram.o
.SECONDARY: $(BENCH_LIB)
bench: all $(OUT)/tests/bench/bench_core bench-algorithms bench-room ## minutes: the core's hot calls, each preset, and HTTP beside its limits, as JSON lines in build/bench/
	($(OUT)/tests/bench/bench_core && $(OUT)/tests/bench/bench_core flat) | tee $(BUILD)/bench/core.jsonl
bench-room: all $(patsubst %,$(OUT)/tests/bench/bench_%,load empty rows) ## HTTP beside an empty handler, one that commits a row, and bare fsyncs: rates, latencies, CPU by part (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/room.py $(OUT) $(BUILD)/bench/room.jsonl $(ARGS)
bench-arms: all $(OUT)/tests/bench/bench_load ## CPU of decisions and rewards where arms are held apart, beside `ucb` (docs/PERFORMANCE.md)
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tests/bench/arms.py $(OUT) $(BUILD)/bench/arms.jsonl $(ARGS)
bench-names: all $(OUT)/tests/bench/bench_load ## CPU of a decision among 20 actions with named features, beside arms of the catalogue (docs/FEATURES.md)
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tests/bench/names.py $(OUT) $(BUILD)/bench/names.jsonl $(ARGS)
bench-spaces: all ## what weights of namespaces are worth, over some seeds (docs/FEATURES.md)
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tests/bench/spaces.py $(OUT) $(BUILD)/bench/spaces.jsonl $(ARGS)
bench-threads: all $(OUT)/tests/bench/bench_load ## one hot tenant on one serving thread and on two (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/threads.py $(OUT) $(BUILD)/bench/threads.jsonl $(ARGS)
bench-sweep: all $(OUT)/tests/bench/bench_load $(OUT)/tests/bench/bench_empty ## a decision's CPU over candidates, dimensions, dictionary and history (docs/PERFORMANCE.md)
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tests/bench/sweep.py $(OUT) $(BUILD)/bench/sweep.jsonl $(ARGS)
VW ?= vw
bench-by-user: all ## CPU of rewards by user beside rewards by decision, over a million open decisions (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/by_user.py $(OUT) $(ARGS)
bench-vw: all $(OUT)/tests/bench/bench_load ## CPU a decision beside Vowpal Wabbit's daemon, where there is one: make bench-vw VW=/path/to/vw (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/vw.py $(OUT) $(BUILD)/bench/vw.jsonl --vw $(VW) $(ARGS)
SEEDS ?= 3
league: all ## an hour or more: the rows beside other algorithms on tasks whose truth is known; writes docs/QUALITY.md: make league LEAGUE="ab town" SEEDS=20 DATA=FOLDER VW=/path/to/vw
	$(PYTHON) tools/league/league.py $(OUT) $(BUILD)/bench/league.jsonl --league "$(LEAGUE)" --seeds $(SEEDS) $(if $(DATA),--data "$(DATA)") \
		$(if $(filter-out file,$(origin VW)),--vw "$(VW)") $(ARGS)
	$(PYTHON) tools/league/report.py $(BUILD)/bench/league.jsonl docs/QUALITY.md
beside-vw: all ## half an hour: what laplaced and Vowpal Wabbit decide on the same tasks and by the same log; writes docs/BESIDE_VW.md: make beside-vw VW=/path/to/vw DATA=FOLDER
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tools/league/league.py $(OUT) $(BUILD)/bench/beside-vw.jsonl --league "classes network" --rows "laplaced,laplaced-kors,ts,ucb,Beta-TS,LinUCB,eps-greedy,VW squarecb,VW eps,uniform" --seeds $(SEEDS) $(if $(DATA),--data "$(DATA)") --vw "$(VW)" $(ARGS)
	$(PYTHON) tools/league/report.py $(BUILD)/bench/beside-vw.jsonl docs/BESIDE_VW.md --table
	$(PYTHON) tools/league/vw_log.py $(OUT) $(BUILD)/bench/vw-log.jsonl --vw "$(VW)" --page docs/BESIDE_VW.md
SIZE ?= 10000
bench-graph: all ## user graphs of SIZE people: loading, decisions beside it, patches, restarts: make bench-graph SIZE=1000000 (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/graph.py $(OUT) $(BUILD)/bench/graph.jsonl --size $(SIZE) $(ARGS)
bench-algorithms: $(OUT)/tests/bench/bench_algorithms ## each preset's decisions and updates beside dgemm and dtrsm (docs/SPEED.md)
	@mkdir -p $(BUILD)/bench
	$(OUT)/tests/bench/bench_algorithms $(BUILD)/bench/algorithms.jsonl
bench-scale: all $(OUT)/tests/bench/bench_load ## what one server on a shared log takes, and its prediction for more: tools/scale.json (docs/SCALE.md; needs postgresql)
	$(PYTHON) tests/bench/cluster.py $(OUT) $(BUILD)/bench/scale.jsonl one $(ARGS)
	$(PYTHON) tools/scale.py fit $(BUILD)/bench/scale.jsonl
bench-servers: all $(OUT)/tests/bench/bench_load ## one, two and three servers that share a log, each with a tenth of a processor, beside that prediction (docs/SCALE.md; needs postgresql)
	$(PYTHON) tests/bench/cluster.py $(OUT) $(BUILD)/bench/servers.jsonl many $(ARGS)
	$(PYTHON) tools/scale.py check $(BUILD)/bench/servers.jsonl
bench-alone: all ## what a server without --log pays for the shared log's code: instructions of a request (docs/SCALE.md; needs valgrind)
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tests/bench/alone.py $(OUT) $(BUILD)/bench/alone.jsonl $(ARGS)
bench-commit: all $(OUT)/tests/bench/nosync.so ## durable throughput over clients, beside bare fdatasync and a server without fsync (docs/SPEED.md)
	@mkdir -p $(BUILD)/bench
	$(PYTHON) tests/bench/commit.py $(OUT) $(BUILD)/bench/commit.json $(ARGS)
UNCHECKED := access_identify access_allow charge charge_route request_check_head connection_enter connections_sweep server_completed
$(OUT)/tests/bench/unchecked.o: CFLAGS_ALL += -iquote server
$(OUT)/tests/bench/unchecked/laplaced: $(OUT)/tests/bench/unchecked.o $(OUT)/server/app/main.o $(OUT)/libld.a $(OUT)/libkb.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) $(UNCHECKED:%=-Wl,--wrap=ld_%) -o $@ $^ $(SERVER_LIBS)
bench-checks: all $(OUT)/tests/bench/unchecked/laplaced ## CPU a request of the server beside itself without the checks at its front door (docs/SPEED.md)
	@mkdir -p $(BUILD)/bench
	ln -sf ../../../laplacectl $(OUT)/tests/bench/unchecked/laplacectl
	$(PYTHON) tests/bench/checks.py $(OUT) $(OUT)/tests/bench/unchecked $(BUILD)/bench/checks.json $(ARGS)
bench-tenants: all $(OUT)/tests/bench/bench_load ## a thousand small tenants alone, beside a large one at full speed, and beside a busy processor (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/tenants.py $(OUT) $(BUILD)/bench/tenants.jsonl $(ARGS)
bench-tls: all ## CPU of requests and handshakes over TLS, beside plain ones (docs/SPEED.md)
	$(PYTHON) tests/bench/tls.py $(OUT) $(BUILD)/bench/tls.json
$(OUT)/tests/bench/nosync.so $(OUT)/tests/crash/power_trace.so: $(OUT)/%.so: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -fPIC -shared -o $@ $<
bench-stall: all $(OUT)/tests/bench/bench_stall ## decisions beside updates over a history of a million events (docs/SPEED.md)
	@mkdir -p $(BUILD)/bench
	folder=$$(mktemp -d) && $(OUT)/tests/bench/bench_stall $(OUT)/laplaced $$folder/data $(BUILD)/bench/stall.json $(ARGS); \
		status=$$?; rm -rf $$folder; cat $(BUILD)/bench/stall.json; exit $$status
$(OUT)/tests/bench/bench_%: tests/bench/bench_%.c $(BENCH_LIB) $(OUT)/libkb.a
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) -iquote tools $(LDFLAGS_ALL) -o $@ $< $(BENCH_LIB) $(OUT)/libkb.a $(CORE_LIBS) -lpthread
$(OUT)/tests/bench/bench_empty: tests/bench/bench_empty.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) -o $@ $< -lmicrohttpd
$(patsubst %,$(OUT)/tests/bench/bench_%,rows bodies): $(OUT)/tests/bench/bench_%: tests/bench/bench_%.c $(OUT)/libld.a $(OUT)/libkb.a
	@mkdir -p $(@D)
	$(CC) $(TEST_FLAGS) -iquote server $(LDFLAGS_ALL) -o $@ $^ $(SERVER_LIBS)
BENCH_COUNTED := $(OUT)/tests/bench/bench_counts $(OUT)/tests/bench/bench_bodies
bench-check: $(BENCH_COUNTED) ## instructions of the core's hot calls and of the hot requests' texts beside the recorded ones, by callgrind (docs/PERFORMANCE.md)
	$(PYTHON) tests/bench/counts.py $(OUT) check
bench-record: $(BENCH_COUNTED) ## count them anew and write tests/bench/recorded.json
	$(PYTHON) tests/bench/counts.py $(OUT) record
docker: ## build the container image
	docker build -t laplaced .
# What stands beside an installed program, made from its --help; the date of its pages is the source's.
PAGES := $(OUT)/pages
pages: $(PAGES)/laplaced.8
$(PAGES)/laplaced.8: $(OUT)/laplaced $(OUT)/laplacectl $(wildcard tools/pages/*.py)
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)} \
		$(PYTHON) -B tools/pages/pages.py $(OUT)/laplaced $(OUT)/laplacectl $(PAGES)
# The configuration file is left alone where there is one.
INSTALL_TO := $(DESTDIR)$(PREFIX)
install: programs pages ## install below PREFIX (/usr/local) and SYSCONFDIR (/etc), where DESTDIR says: programs, unit, configuration, manual, completion
	install -D -m 755 -t $(INSTALL_TO)/bin $(OUT)/laplaced $(OUT)/laplacectl
	install -D -m 644 -t $(INSTALL_TO)/share/man/man8 $(PAGES)/laplaced.8
	install -D -m 644 -t $(INSTALL_TO)/share/man/man5 $(PAGES)/laplaced.conf.5
	install -D -m 644 -t $(INSTALL_TO)/share/man/man1 $(PAGES)/laplacectl.1
	install -D -m 644 $(PAGES)/laplaced.bash $(INSTALL_TO)/share/bash-completion/completions/laplaced
	install -D -m 644 $(PAGES)/laplacectl.bash $(INSTALL_TO)/share/bash-completion/completions/laplacectl
	install -D -m 644 -t $(INSTALL_TO)/share/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions) $(PAGES)/_laplaced $(PAGES)/_laplacectl
	install -D -m 644 $(PAGES)/laplaced.conf.example $(INSTALL_TO)/share/doc/laplaced/examples/laplaced.conf
	install -D -m 644 deploy/laplaced.sysusers $(INSTALL_TO)/lib/sysusers.d/laplaced.conf
	install -d $(DESTDIR)$(UNITDIR)
	sed -e 's|/usr/local/bin|$(PREFIX)/bin|' -e 's|/etc/laplaced|$(SYSCONFDIR)/laplaced|' deploy/laplaced.service > $(DESTDIR)$(UNITDIR)/laplaced.service
	chmod 644 $(DESTDIR)$(UNITDIR)/laplaced.service
	install -m 644 -t $(DESTDIR)$(UNITDIR) deploy/laplaced.socket
	test -e $(DESTDIR)$(SYSCONFDIR)/laplaced/laplaced.conf || install -D -m 644 deploy/laplaced.conf $(DESTDIR)$(SYSCONFDIR)/laplaced/laplaced.conf
image: ## the image of the Dockerfile by buildah, without a daemon or a registry; as root: build/image/laplaced.tar.gz and its list of packages
	sh tools/image.sh $(BUILD)/image
test-image: image ## minutes, as root: the image run by podman - its user, its root, its volume, its health check, and a stop under load
	LAPLACED_IMAGE=$(abspath $(BUILD))/image sh tests/run.sh $(OUT) image
deb: ## the Debian package, in build/deb
	sh tools/deb.sh $(BUILD)/deb
test-package: deb ## the Debian package: lintian, and what is in it
	LAPLACED_PACKAGES=$(abspath $(BUILD))/deb sh tests/run.sh $(OUT) package
test-hammered: deb ## minutes: the package's server under testssl, slowhttptest and wrk, as Debian has them
	LAPLACED_PACKAGES=$(abspath $(BUILD))/deb sh tests/run.sh $(OUT) hammered
BEFORE ?= 5784cfea
deb-before: ## the package of an older commit, in build/deb-before, which test-deb then upgrades from: make deb-before BEFORE=COMMIT
	rm -rf $(BUILD)/before && mkdir -p $(BUILD)/before && git archive $(BEFORE) | tar -x -C $(BUILD)/before
	sh $(BUILD)/before/tools/deb.sh $(BUILD)/deb-before && rm -rf $(BUILD)/before
BASE := $(BUILD)/base/bookworm.tar
test-deb: deb ## minutes, as root: the package in a bare Debian 12 - installed, upgraded under load, removed, purged - and built again elsewhere to the same bytes
	sh tools/base.sh $(BASE)
	LAPLACED_PACKAGES=$(abspath $(BUILD))/deb LAPLACED_BASE=$(abspath $(BASE)) sh tests/run.sh $(OUT) package-deep
clean: ## remove build/
	rm -rf $(BUILD)
help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 20

-include $(CORE_OBJ:.o=.d) $(SERVER_OBJ:.o=.d) $(OUT)/server/app/main.d $(CTL_OBJ:.o=.d) $(PAPER_OBJ:.o=.d) $(TEST_LIB_OBJ:.o=.d) $(TEST_SERVER_OBJ:.o=.d)
-include $(COVERAGE:=.d) $(CORE_TESTS:=.d) $(SERVER_TESTS:=.d) $(TOOL_TESTS:=.d) $(PAPER_TESTS:=.d) $(CLUSTER_TESTS:=.d) $(FUZZ_TESTS:=.d) $(FUZZ_OBJ:.o=.d) $(BENCH_LIB:.o=.d)
