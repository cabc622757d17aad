# laplaced: one Makefile, non-recursive. `make help` lists the targets.
# MODE=release|debug|asan|tsan selects a build below build/MODE/; release binaries are also linked as build/laplaced
# and build/laplacectl.

MODE ?= release
BUILD ?= build
OUT := $(BUILD)/$(MODE)
CC ?= gcc
PYTHON ?= /usr/bin/python3
WERROR ?=

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wold-style-definition -Wformat=2 -Wcast-align \
        -Wundef -Wvla -Wdouble-promotion $(WERROR)
OPT_release := -O2 -ftree-vectorize -g
OPT_debug := -O0 -g
OPT_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
OPT_tsan := -O1 -g -fsanitize=thread
CFLAGS_ALL := -std=c11 -D_GNU_SOURCE $(WARN) -ffp-contract=off -fno-math-errno $(OPT_$(MODE)) -MMD -MP $(CFLAGS)
LDFLAGS_ALL := $(filter -fsanitize% -g,$(OPT_$(MODE))) $(LDFLAGS)

CORE_LIBS := -llapacke -lopenblas -lm
SERVER_LIBS := -lmicrohttpd -ljansson -lsqlite3 -luv $(CORE_LIBS) -lpthread
TOOL_LIBS := -lcurl $(SERVER_LIBS)

CORE_SRC := $(wildcard core/*.c)
SERVER_SRC := $(filter-out server/main.c,$(wildcard server/*.c))
CTL_SRC := $(wildcard tools/ctl/*.c)
CORE_OBJ := $(CORE_SRC:%.c=$(OUT)/%.o)
SERVER_OBJ := $(SERVER_SRC:%.c=$(OUT)/%.o) $(OUT)/embed.o
CTL_OBJ := $(CTL_SRC:%.c=$(OUT)/%.o)

CORE_TESTS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/unit/test_*.c tests/property/test_*.c))
SERVER_TESTS := $(patsubst tests/%.c,$(OUT)/tests/%,$(wildcard tests/server/test_*.c))
TEST_LIB_OBJ := $(patsubst %.c,$(OUT)/%.o,$(wildcard tests/lib/*.c))

.PHONY: all
all: $(OUT)/laplaced $(OUT)/laplacectl ## build build/laplaced and build/laplacectl
ifeq ($(MODE),release)
	@ln -sf $(MODE)/laplaced $(BUILD)/laplaced
	@ln -sf $(MODE)/laplacectl $(BUILD)/laplacectl
endif

$(OUT)/libkb.a: $(CORE_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(OUT)/libld.a: $(SERVER_OBJ)
	@rm -f $@
	ar rcs $@ $^
$(OUT)/laplaced: $(OUT)/server/main.o $(OUT)/libld.a $(OUT)/libkb.a
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(SERVER_LIBS)
$(OUT)/laplacectl: $(CTL_OBJ) $(OUT)/libld.a $(OUT)/libkb.a
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(TOOL_LIBS)

$(OUT)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -iquote server -c -o $@ $<
$(OUT)/core/%.o: core/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -c -o $@ $<

# Migrations and the API contract, embedded as C strings (symbols in server/embed.h).
EMBED := schema/0001_tenant.sql schema/registry_0001.sql openapi.yaml
$(OUT)/embed.c: $(EMBED) tools/embed.sh
	@mkdir -p $(@D)
	sh tools/embed.sh $(EMBED) > $@.tmp && mv $@.tmp $@
$(OUT)/embed.o: $(OUT)/embed.c
	$(CC) -std=c11 -O1 -c -o $@ $<

$(OUT)/tests/unit/% $(OUT)/tests/property/%: $(OUT)/libkb.a $(TEST_LIB_OBJ)
$(OUT)/tests/unit/%: tests/unit/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -Itests/lib $(LDFLAGS_ALL) -o $@ $< $(TEST_LIB_OBJ) $(OUT)/libkb.a -lcheck -lsubunit -lrt -lpthread $(CORE_LIBS)
$(OUT)/tests/property/%: tests/property/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -Itests/lib $(LDFLAGS_ALL) -o $@ $< $(TEST_LIB_OBJ) $(OUT)/libkb.a -lcheck -lsubunit -lrt -lpthread $(CORE_LIBS)
$(OUT)/tests/server/%: tests/server/%.c $(OUT)/libld.a $(OUT)/libkb.a $(TEST_LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -iquote core -iquote server -Itests/lib $(LDFLAGS_ALL) -o $@ $< $(TEST_LIB_OBJ) $(OUT)/libld.a $(OUT)/libkb.a -lcheck -lsubunit -lrt $(SERVER_LIBS)

.PHONY: core-tests server-tests clean help
core-tests: $(CORE_TESTS)
server-tests: $(SERVER_TESTS)

clean: ## remove build/
	rm -rf $(BUILD)
help: ## this list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 20

-include $(CORE_OBJ:.o=.d) $(SERVER_OBJ:.o=.d) $(CTL_OBJ:.o=.d)
