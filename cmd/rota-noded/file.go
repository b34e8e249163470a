package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/noded/config"
)

// readFile sets every flag that is in the file and not on the command line.
func readFile(c *cli.Context, path string) error {
	f, err := config.Read(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := daemon.SetFlags(c, f); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	return nil
}
