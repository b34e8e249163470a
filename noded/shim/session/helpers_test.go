package session

import "github.com/rota-hpc/rota/noded/shim/shimtest"

var check, pair = shimtest.Check, shimtest.Pair
