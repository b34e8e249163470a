package main

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// world is everything outside the process that a command touches, so that tests can put something else in its place.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        func() []string
	now            func() time.Time
	terminal       func(w io.Writer) bool // whether w is shown to somebody
	color          string                 // --color: always or never; else it depends
	client         api.Options            // zero but in tests
}

func system() *world {
	return &world{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, environ: os.Environ, now: time.Now, terminal: isTerminal,
	}
}

// closeQuietly is for readers whose errors have been seen while reading.
func closeQuietly(c io.Closer) { _ = c.Close() }

// isBrokenPipe reports that the reader of our output has gone, as `rota queue | head -1` makes it.
func isBrokenPipe(err error) bool { return errors.Is(err, errPipe) }
