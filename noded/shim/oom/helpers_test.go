package oom

import "github.com/rota-hpc/rota/noded/shim/shimtest"

var check, needsRoot = shimtest.Check, shimtest.NeedsRoot
