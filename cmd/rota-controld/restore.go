package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
	"github.com/rota-hpc/rota/controld/recovery"
)

// restoreCommand makes a cluster of one of a backup.
func restoreCommand(out io.Writer) *cli.Command {
	flags := append(placeFlags(), aboveFlag(),
		&cli.StringFlag{Name: "passphrase-file", Usage: "read the passphrase of the keys from `FILE` (default: ask)"})
	return &cli.Command{Name: "restore", Usage: "make a cluster of one controller from a backup", ArgsUsage: "FILE",
		Description: "The data directory must be empty, or contain only tls/ of a controller of the same cluster. The " +
			"restored cluster has a new\ngeneration, see rota-controld recover. The whole backup is checked before anything " +
			"is written.",
		Flags: flags, Before: daemon.OwnFlags, Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("name the backup: rota-controld restore FILE --name NAME --data-dir DIR")
			}
			file := c.Args().First()
			f, err := os.Open(file) // while this is root, which the file belongs to
			if err != nil {
				return err
			}
			defer f.Close()
			text := func() (string, error) { return readPassphrase() }
			if path := c.String("passphrase-file"); path != "" {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text = func() (string, error) { return string(bytes.TrimRight(b, "\r\n")), nil }
			}
			o, err := recoveryOptions(c, out)
			if err != nil {
				return err
			}
			r, err := restoreFrom(c.Context, f, recovery.Restoration{Options: o, Passphrase: text})
			if r != nil {
				tellRecovered(out, o, r)
			}
			if err != nil {
				return fmt.Errorf("restore %s: %w", file, err)
			}
			return nil
		}}
}

// restoreFrom restores an open file, and shows on a terminal how far it is.
func restoreFrom(ctx context.Context, f *os.File, o recovery.Restoration) (*recovery.Result, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var done atomic.Int64
	line := progress.Show(os.Stderr, progress.Task{What: "restoring",
		Done: func() (int64, int64) { return done.Load(), info.Size() }})
	defer line.Stop()
	ask := o.Passphrase
	o.Passphrase = func() (text string, err error) {
		line.Without(func() { text, err = ask() })
		return text, err
	}
	o.Reading = func(r io.Reader) io.Reader { return progress.Reader(r, &done) }
	o.File = fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	return recovery.Restore(ctx, o)
}

func readPassphrase() (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New("the backup contains keys: enter their passphrase at a terminal, or use --passphrase-file FILE")
	}
	fmt.Fprint(os.Stderr, "Passphrase of the keys: ")
	b, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(os.Stderr)
	return string(b), err
}
