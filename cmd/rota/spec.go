package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/jobspec"
)

// parseJob reads a job file's text.
func (w *world) parseJob(name string, src []byte, c *cli.Context) (*jobspec.Job, error) {
	return nil, usagef("%s: this build cannot read job files", name)
}
