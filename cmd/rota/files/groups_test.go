package files

import (
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/submit"
)

// groups has the commands that the tests use.
var groups = rotatest.Join(Commands, submit.Commands)
