package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/controld/recovery"
)

// restoreCommand makes a cluster of one of a backup.
func restoreCommand(out io.Writer) *cli.Command {
	flags := append(placeFlags(), aboveFlag(),
		&cli.StringFlag{Name: "passphrase-file", Usage: "read the passphrase of the keys from `FILE` (default: ask)"})
	return &cli.Command{Name: "restore", Usage: "make a cluster of one controller of a backup", ArgsUsage: "FILE",
		Description: "The data directory must be empty, or have tls/ of a controller of the same cluster alone. It begins " +
			"another generation of the\ncluster, see rota-controld recover. The backup is checked as a whole before anything " +
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
			r, err := recovery.Restore(c.Context, recovery.Restoration{Options: o,
				File: fmt.Sprintf("/proc/self/fd/%d", f.Fd()), Passphrase: text})
			if r != nil {
				tellRecovered(out, o, r)
			}
			if err != nil {
				return fmt.Errorf("restore %s: %w", file, err)
			}
			return nil
		}}
}

func readPassphrase() (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New("the backup has keys: give their passphrase at a terminal, or with --passphrase-file FILE")
	}
	fmt.Fprint(os.Stderr, "Passphrase of the keys: ")
	b, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(os.Stderr)
	return string(b), err
}
