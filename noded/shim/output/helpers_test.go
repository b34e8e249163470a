package output

import "github.com/rota-hpc/rota/noded/shim/shimtest"

var (
	check, needsRoot, openTempDir = shimtest.Check, shimtest.NeedsRoot, shimtest.OpenTempDir
	self, testUser                = shimtest.Self, shimtest.User
)
