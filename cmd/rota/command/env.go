package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/directory"
)

// Interruptible returns a context that ends with exit.ErrInterrupted when the user presses Ctrl-C.
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

// Width returns how many characters fit into a line of out: of a terminal its width, otherwise 80.
func (env *Env) Width(out io.Writer) int {
	if f, ok := out.(*os.File); ok && env.IsTerminal(out) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// Screen returns what a table on standard output may count on.
func (env *Env) Screen() table.Screen {
	s := table.Screen{Colour: env.Colour(env.Stdout)}
	if env.IsTerminal(env.Stdout) {
		s.Width = env.Width(env.Stdout)
	}
	return s
}

// IsUTF8 reports whether the locale says that texts are UTF-8.
func (env *Env) IsUTF8() bool {
	locale := strings.ToLower(cmp.Or(env.Getenv("LC_ALL"), env.Getenv("LC_CTYPE"), env.Getenv("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// readColor stores --color before a command runs.
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

// Colour reports whether to colour what is written to out. --color decides. Without it, out must be a
// terminal, and neither NO_COLOR nor CLICOLOR=0 be set.
func (env *Env) Colour(out io.Writer) bool {
	if env.color != "" {
		return env.color == "always"
	}
	return env.Getenv("NO_COLOR") == "" && env.Getenv("CLICOLOR") != "0" && env.Getenv("TERM") != "dumb" &&
		env.IsTerminal(out)
}

// SelectedUser returns the user that --me or --user names, "" for neither. It refuses --me with
// another user.
func (env *Env) SelectedUser(c *cli.Context) (string, error) {
	if !c.Bool("me") {
		return c.String("user"), nil
	}
	uid := os.Getuid()
	u, err := directory.Machine.UserByID(uint32(uid))
	if err != nil {
		return "", fmt.Errorf("--me: user %d has no name on this machine: %w", uid, err)
	}
	if named := c.String("user"); named != "" && named != u.Name {
		return "", exit.Usagef("--me and --user %s exclude each other", named)
	}
	return u.Name, nil
}

// LookupEnv returns the value of an environment variable, and whether it is set.
func (env *Env) LookupEnv(name string) (string, bool) {
	for _, entry := range env.Environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// PipedInput returns standard input if it is a pipe, a socket or a regular file, otherwise nil.
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

// Env is what a command has around it: streams, environment, clock, and options of the connection.
// Tests replace it.
type Env struct {
	Name           string // of the program in its messages; "": rota
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	Now            func() time.Time
	IsTerminal     func(w io.Writer) bool // whether w is a terminal
	color          string                 // from --color: always, never, or "" for automatic
	ClientOptions  api.Options            // zero except in tests
	// RunAs is told as which user of the nodes the jobs that were submitted run, if not as the caller; nil:
	// that does not matter.
	RunAs func(user string)
}

// System returns the environment of this process.
func System() *Env {
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Now: time.Now, IsTerminal: isTerminal,
	}
}
