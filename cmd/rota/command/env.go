package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
)

// Interruptible is ctx that ends with errInterrupted when the user presses Ctrl-C.
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel(exit.ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// readColor takes --color over, before a command runs.
func (env *Env) readColor(c *cli.Context) error {
	switch text := c.String("color"); text {
	case "", "auto":
	case "always", "never":
		env.color = text
	default:
		return exit.Usagef("--color %s: must be auto, always or never", text)
	}
	return nil
}

// Colour reports whether out gets escape sequences: what --color says, else a terminal does, unless NO_COLOR is set.
func (env *Env) Colour(out io.Writer) bool {
	if env.color != "" {
		return env.color == "always"
	}
	return env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb" && env.IsTerminal(out)
}

// userName looks up who uid is.
func userName(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", fmt.Errorf("user %d has no name on this machine: %w", uid, err)
	}
	return u.Username, nil
}

// LookupEnv finds a variable of the environment.
func (env *Env) LookupEnv(name string) (string, bool) {
	for _, entry := range env.Environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// PipedInput returns standard input where something else than a terminal may have been put: a file, a pipe or a socket. Else it is nil.
func (env *Env) PipedInput() *os.File {
	f, ok := env.Stdin.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 && !info.Mode().IsRegular() {
		return nil
	}
	return f
}

// Env is everything outside the process that a command touches, so that tests can put something else in its place.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	Now            func() time.Time
	IsTerminal     func(w io.Writer) bool // whether w is shown to somebody
	color          string                 // --color: always or never; else it depends
	ClientOptions  api.Options            // zero but in tests
}

func System() *Env {
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Now: time.Now, IsTerminal: isTerminal,
	}
}

// Action makes the action of a command from a function.
func (env *Env) Action(run func(*Env, *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error { return run(env, c) }
}
