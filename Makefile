# invar: build, check, install. `make help` lists the targets; objects lie under $(BUILD).
SHELL   := /bin/bash
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
MPICC   ?= mpicc
PYTHON  ?= /usr/bin/python3
NPROC   := $(shell nproc 2>/dev/null || echo 2)
# One rank a core: hardware threads of a core share its units and its cache.
CORES   := $(shell c=$$(lscpu -p=CORE,SOCKET 2>/dev/null | grep -v '^\#' | sort -u | wc -l); n=$(NPROC); [ "$$c" -ge 1 ] && [ "$$c" -lt $$n ] && n=$$c; echo $$n)
ifeq ($(origin CC),default)
CC      := gcc
endif

.DEFAULT_GOAL := help
# `make V=1` shows the whole commands.
run = $(if $(V),,@echo "  $(1)";)
.DELETE_ON_ERROR:

# --- flags ---------------------------------------------------------------------------------------------------------
# -ffp-contract=off: a fused multiply-add stands only where the code says so, so every instruction set rounds alike.
# -fno-math-errno lets sqrt be an instruction; it changes no value. Never -ffast-math: it breaks isfinite.
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
OPT      ?= -O3 -g
SAN      :=
CFLAGS   += -std=gnu11 $(OPT) $(WARN) $(SAN) -ffp-contract=off -fno-math-errno -pthread -MMD -MP
CPPFLAGS += -Isrc -I. -I$(BUILD) -D_GNU_SOURCE $(DEPS_CFLAGS)

# Libraries: what pkg-config knows wins; the fallbacks are Debian's and the usual names on clusters (modules, spack).
pc        = $(shell pkg-config $(1) $(2) 2>/dev/null)
first     = $(firstword $(foreach p,$(1),$(shell pkg-config --exists $(p) 2>/dev/null && echo $(p))))
NETCDF   := $(call first,netcdf)
SCALAPACK:= $(call first,scalapack-openmpi scalapack)
LAPACKE  := $(call first,lapacke lapacke-openblas openblas)
BLAS     := $(call first,openblas blas-openblas)
DEPS_CFLAGS := $(call pc,--cflags,$(NETCDF) $(LAPACKE) $(BLAS) yaml-0.1 libxxhash)
DEPS_LIBS   := $(or $(if $(NETCDF),$(call pc,--libs,$(NETCDF))),$(shell nc-config --libs 2>/dev/null),-lnetcdf) \
               $(or $(if $(LAPACKE),$(call pc,--libs,$(LAPACKE))),-llapacke) \
               $(or $(if $(BLAS),$(call pc,--libs,$(BLAS))),-lopenblas) \
               $(or $(call pc,--libs,yaml-0.1),-lyaml) $(or $(call pc,--libs,libxxhash),-lxxhash) -lm -ldl -pthread
MPI_LIBS    := $(or $(if $(SCALAPACK),$(call pc,--libs,$(SCALAPACK))),-lscalapack)

# --- sources: layers downward, see `make lint` ---------------------------------------------------------------------
ROOMS    := base job kern task model probe store run
KERN_ISA := src/kern/isa.c                       # compiled once per instruction set and precision, see below
SRC      := $(filter-out $(KERN_ISA),$(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c)))
MPI_SRC  := $(wildcard mpi/*.c) $(wildcard analysis/*.c)
OBJ      := $(SRC:%.c=$(BUILD)/%.o)
MPI_OBJ  := $(MPI_SRC:%.c=$(BUILD)/%.o)

ARCH := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
ISAS := scalar $(if $(filter x86_64,$(ARCH)),avx2 avx512) $(if $(filter aarch64,$(ARCH)),neon)
ISA_FLAGS_scalar :=
ISA_FLAGS_neon   := -DKERN_NEON
ISA_FLAGS_avx2   := -march=x86-64-v3
ISA_FLAGS_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
# Sanitized and optimised, the unrolled tiles take gcc many minutes; unoptimised, seconds. AVX2 alone compiles quickly
# enough to be optimised: tests/all san runs on it, and its kernels are some three times faster for that.
ISA_OPT = $(if $(SAN),$(if $(filter avx2,$(1)),,-O0))
ISA_OBJ := $(foreach i,$(ISAS),$(foreach p,f32 f64,$(BUILD)/src/kern/$(i)_$(p).o))

.PHONY: build
build: $(BUILD)/invar ## builds the program, build/invar

# The revision is in one header that changes only when the revision does.
REVISION := $(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
$(BUILD)/revision.h: FORCE
	@mkdir -p $(@D)
	@echo '#define INVAR_REVISION "$(REVISION)"' | cmp -s - $@ || echo '#define INVAR_REVISION "$(REVISION)"' > $@
$(BUILD)/src/base/version.o: $(BUILD)/revision.h
.PHONY: FORCE
FORCE:

mpi_rooms = mpi/% analysis/% tests/mpi/% tests/analysis/%
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call run,CC $@)$(if $(filter $(mpi_rooms),$<),$(MPICC),$(CC)) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

define isa_rule
$(BUILD)/src/kern/$(1)_$(2).o: $(KERN_ISA)
	@mkdir -p $$(@D)
	$$(call run,CC $$@)$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_FLAGS_$(1)) $(call ISA_OPT,$(1)) -DKERN_ISA=$(1) -DKERN_$(2) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(foreach p,f32 f64,$(eval $(call isa_rule,$(i),$(p)))))

$(BUILD)/libinvar.a: $(OBJ) $(ISA_OBJ)
	$(call run,AR $@)rm -f $@ && ar rcs $@ $^

$(BUILD)/invar: $(MPI_OBJ) $(BUILD)/libinvar.a
	$(call run,LINK $@)$(MPICC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(MPI_LIBS) $(DEPS_LIBS)

# --- run -----------------------------------------------------------------------------------------------------------
# Ranks are processes of one core each; root needs Open MPI's permission (containers, tests).
MPI_ENV  := OMPI_MCA_mpi_yield_when_idle=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
            $(if $(filter 0,$(shell id -u)),OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
.PHONY: run deps bench-deps
run: deps ## installs what is missing, builds, and runs the first job on all cores: cores of Markov-chain transformers
	@$(MAKE) --no-print-directory -j$(NPROC) build
	$(MPI_ENV) mpirun -q -n $(CORES) $(BUILD)/invar run jobs/markov-cores.yaml

deps: ## installs missing packages (Debian and Ubuntu, root or sudo); elsewhere prints what is needed
	@tests/deps build check
	@tests/deps slurm || echo "without these the tests of tests/slurm fail; all else works"
bench-deps: ## what `make bench` compares with
	@tests/deps build bench

# --- tests ---------------------------------------------------------------------------------------------------------
# tests/ROOM/test_*.c: a program each; tests/{mpi,analysis} are linked with MPI. test_*.py and test_*.sh run as they are.
TEST_SRC := $(wildcard $(foreach r,$(ROOMS) mpi analysis,tests/$(r)/test_*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
TEST_MPI := $(filter $(BUILD)/tests/mpi/% $(BUILD)/tests/analysis/%,$(TEST_BIN))
NO_MAIN_OBJ := $(filter-out $(BUILD)/mpi/main.o,$(MPI_OBJ))

$(TEST_MPI): $(BUILD)/%: $(BUILD)/%.o $(NO_MAIN_OBJ) $(BUILD)/libinvar.a
	$(call run,LINK $@)$(MPICC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(MPI_LIBS) $(DEPS_LIBS)
$(filter-out $(TEST_MPI),$(TEST_BIN)): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libinvar.a
	$(call run,LINK $@)$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(DEPS_LIBS)
$(TEST_BIN:%=%.o): CPPFLAGS += -Itests

$(BUILD)/tests/fault/shim.so: tests/fault/shim.c
	@mkdir -p $(@D)
	$(call run,LINK $@)$(CC) $(CPPFLAGS) $(filter-out $(SAN),$(CFLAGS)) -shared -fPIC $< -o $@ -ldl

.PHONY: tests-build check check-slurm check-faults check-long check-san lint docs
tests-build: $(TEST_BIN) $(BUILD)/invar $(BUILD)/tests/fault/shim.so

check: deps ## set-up, build, all tests; ends with "N passed, N failed"
	@$(MAKE) --no-print-directory -j$(NPROC) tests-build
	@BUILD=$(BUILD) tests/all quick

check-slurm: deps ## submissions to a throw-away SLURM on this machine; part of `make check`
	@$(MAKE) --no-print-directory -j$(NPROC) build
	@BUILD=$(BUILD) tests/all slurm

check-long: deps ## the paper at full size: 32 seeds, the initialisation map, and the same training in PyTorch
	@$(MAKE) --no-print-directory -j$(NPROC) tests-build
	@BUILD=$(BUILD) tests/all long

# N rounds of faults at random moments; SEED (and KINDS, names of faults) repeat a round: the campaign prints how.
N     ?= 200
SEED  ?=
KINDS ?=
check-faults: deps ## N=200 rounds of kills, stops, full disks and flipped bytes; proves that nothing is lost
	@$(MAKE) --no-print-directory -j$(NPROC) build $(BUILD)/tests/fault/shim.so
	@$(PYTHON) -B tests/fault/campaign.py --build $(BUILD) --rounds $(N) $(if $(SEED),--seed $(SEED)) $(if $(KINDS),--only $(KINDS))

# Sanitizers: every C test and the end-to-end runs under ASan and UBSan. OpenBLAS and MPI are not instrumented.
check-san: deps ## all C tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory -j$(NPROC) BUILD=$(BUILD)/san OPT="-O1 -g" \
	    SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" tests-build
	@BUILD=$(BUILD)/san tests/all san

lint: $(BUILD)/invar ## layers, generated docs, shell and Python syntax, file sizes
	@BUILD=$(BUILD) tests/lint/lint

docs: $(BUILD)/invar ## jobs/FORMAT.md from the tables in src/job/keys.h
	$(BUILD)/invar format > jobs/FORMAT.md

.PHONY: bench
bench: bench-deps ## training speed side by side with the same training in PyTorch, pinned to one core
	@$(MAKE) --no-print-directory -j$(NPROC) build
	@BUILD=$(BUILD) $(PYTHON) tests/reference/bench.py

# --- install -------------------------------------------------------------------------------------------------------
.PHONY: install
install: build ## program, job files, batch scripts, man page and completion under DESTDIR/PREFIX
	install -Dm755 $(BUILD)/invar $(DESTDIR)$(PREFIX)/bin/invar
	install -d $(DESTDIR)$(PREFIX)/share/invar/jobs $(DESTDIR)$(PREFIX)/share/invar/slurm
	install -m644 $(wildcard jobs/*) $(DESTDIR)$(PREFIX)/share/invar/jobs/
	install -m755 slurm/submit $(wildcard slurm/*.sbatch) $(DESTDIR)$(PREFIX)/share/invar/slurm/
	install -m644 slurm/common.sh $(DESTDIR)$(PREFIX)/share/invar/slurm/
	@# The site's own settings stay.
	[ -e $(DESTDIR)$(PREFIX)/share/invar/slurm/site.conf ] || install -m644 slurm/site.conf $(DESTDIR)$(PREFIX)/share/invar/slurm/
	install -Dm644 doc/invar.1 $(DESTDIR)$(PREFIX)/share/man/man1/invar.1
	install -Dm644 doc/invar.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/invar

# --- the rest ------------------------------------------------------------------------------------------------------
-include $(shell find $(BUILD) -name '*.d' -not -path '$(BUILD)/san/*' 2>/dev/null)

.PHONY: clean help
clean: ## removes everything that was built
	rm -rf $(BUILD)
help: ## this list
	@echo "invar: train many small transformers, compare them, map their phases. Targets:"
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/  make \1\t/' | expand -t 22
