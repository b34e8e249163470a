package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// validate checks every file, and fails when any is wrong.
func (w *world) validate(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		return usagef("which job file? rota validate %s", c.Command.ArgsUsage)
	}
	bad := 0
	for _, name := range c.Args().Slice() {
		if err := w.validateOne(name, c, asJSON); err != nil {
			bad++
			w.printError(asJSON, err)
		}
	}
	if bad > 0 {
		return &codeError{code: exitUsage}
	}
	return nil
}

func (w *world) validateOne(name string, c *cli.Context, asJSON bool) error {
	read, err := w.readJob(name, c)
	if err != nil {
		return err
	}
	if asJSON {
		value, err := shownJob(read)
		if err != nil {
			return err
		}
		return printJSON(w.stdout, value)
	}
	_, err = fmt.Fprintf(w.stdout, "%s: ok, job %s\n", name, read.Job.Name)
	return err
}
