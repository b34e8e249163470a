package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld"
)

func readFile(*cli.Context, *controld.Config, *string) error { return nil }
