# invar: build, check, install. `make help` lists the targets; objects lie under $(BUILD).
SHELL   := /bin/bash
BUILD   ?= build
PREFIX  ?= /usr/local
CC      ?= gcc
MPICC   ?= mpicc
PYTHON  ?= /usr/bin/python3
NPROC   := $(shell nproc 2>/dev/null || echo 2)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# --- flags ---------------------------------------------------------------------------------------------------------
# -ffp-contract=off: a fused multiply-add stands only where the code says so, so every instruction set rounds alike.
# -fno-math-errno lets sqrt be an instruction; it changes no value. Never -ffast-math: it breaks isfinite.
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
OPT      ?= -O3 -g
CFLAGS   += -std=gnu11 $(OPT) $(WARN) -ffp-contract=off -fno-math-errno -pthread -MMD -MP
CPPFLAGS += -Isrc -I. -D_GNU_SOURCE -DINVAR_REVISION='"$(shell git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)"' $(DEPS_CFLAGS)

# Libraries: what pkg-config knows wins; the fallbacks are Debian's and the usual names on clusters (modules, spack).
pc        = $(shell pkg-config $(1) $(2) 2>/dev/null)
first     = $(firstword $(foreach p,$(1),$(shell pkg-config --exists $(p) 2>/dev/null && echo $(p))))
NETCDF   := $(call first,netcdf netcdf-serial)
SCALAPACK:= $(call first,scalapack-openmpi scalapack)
LAPACKE  := $(call first,lapacke lapacke-openblas openblas)
BLAS     := $(call first,openblas blas-openblas blas)
DEPS_CFLAGS := $(call pc,--cflags,$(NETCDF) $(LAPACKE) yaml-0.1 libxxhash)
DEPS_LIBS   := $(or $(call pc,--libs,$(NETCDF)),$(shell nc-config --libs 2>/dev/null),-lnetcdf) \
               $(or $(call pc,--libs,$(LAPACKE)),-llapacke) $(or $(call pc,--libs,$(BLAS)),-lopenblas) \
               $(or $(call pc,--libs,yaml-0.1),-lyaml) $(or $(call pc,--libs,libxxhash),-lxxhash) -lm -ldl -pthread
MPI_LIBS    := $(or $(call pc,--libs,$(SCALAPACK)),-lscalapack)

# --- sources -------------------------------------------------------------------------------------------------------
ROOMS    := base job kern task model probe store run
KERN_ISA := src/kern/isa.c                       # compiled once per instruction set and precision, see below
SRC      := $(filter-out $(KERN_ISA),$(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c)))
MPI_SRC  := $(wildcard mpi/*.c) $(wildcard analysis/*.c)
OBJ      := $(SRC:%.c=$(BUILD)/%.o)
MPI_OBJ  := $(MPI_SRC:%.c=$(BUILD)/%.o)

ARCH := $(shell uname -m)
ISAS := scalar $(if $(filter x86_64,$(ARCH)),avx2 avx512)
ISA_FLAGS_scalar :=
ISA_FLAGS_avx2   := -march=x86-64-v3
ISA_FLAGS_avx512 := -march=x86-64-v4 -mprefer-vector-width=512
ISA_OBJ := $(foreach i,$(ISAS),$(foreach p,f32 f64,$(BUILD)/src/kern/$(i)_$(p).o))

.PHONY: build
build: $(BUILD)/invar ## builds the program

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(filter mpi/% analysis/% tests/mpi/% tests/analysis/%,$<),$(MPICC),$(CC)) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

define isa_rule
$(BUILD)/src/kern/$(1)_$(2).o: $(KERN_ISA)
	@mkdir -p $$(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(ISA_FLAGS_$(1)) -DKERN_ISA=$(1) -DKERN_$(2) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(foreach p,f32 f64,$(eval $(call isa_rule,$(i),$(p)))))

$(BUILD)/libinvar.a: $(OBJ) $(ISA_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/invar: $(MPI_OBJ) $(BUILD)/libinvar.a
	$(MPICC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(MPI_LIBS) $(DEPS_LIBS)

# --- tests ---------------------------------------------------------------------------------------------------------
# tests/ROOM/test_*.c: a program each. tests/{mpi,analysis} are linked with MPI. *.py and *.sh run as they are.
TEST_SRC := $(wildcard $(foreach r,$(ROOMS) mpi analysis,tests/$(r)/test_*.c))
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
NO_MAIN_OBJ := $(filter-out $(BUILD)/mpi/main.o,$(MPI_OBJ))

$(filter $(BUILD)/tests/mpi/% $(BUILD)/tests/analysis/%,$(TEST_BIN)): $(BUILD)/%: $(BUILD)/%.o $(NO_MAIN_OBJ) $(BUILD)/libinvar.a
	$(MPICC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(MPI_LIBS) $(DEPS_LIBS)
$(filter-out $(BUILD)/tests/mpi/% $(BUILD)/tests/analysis/%,$(TEST_BIN)): $(BUILD)/%: $(BUILD)/%.o $(BUILD)/libinvar.a
	$(CC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(DEPS_LIBS)
$(TEST_BIN:%=%.o): CPPFLAGS += -Itests

.PHONY: tests-build
tests-build: $(TEST_BIN) $(BUILD)/invar

# --- the rest ------------------------------------------------------------------------------------------------------
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

.PHONY: clean help
clean: ## removes everything that was built
	rm -rf $(BUILD)
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/  make \1\t/' | expand -t 22
