package submit

import (
	"github.com/rota-hpc/rota/cmd/rota/files"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/views"
)

// groups has the commands that the tests use.
var groups = rotatest.Join(Commands, files.Commands, views.Commands)
