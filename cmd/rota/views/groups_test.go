package views

import (
	"github.com/rota-hpc/rota/cmd/rota/admin"
	"github.com/rota-hpc/rota/cmd/rota/control"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/submit"
)

// groups has the commands that the tests use.
var groups = rotatest.Join(Commands, admin.Commands, control.Commands, submit.Commands)
