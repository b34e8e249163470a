package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
	"github.com/rota-hpc/rota/consensus/durable"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/backup"
)

// writeBackup writes a backup of the cluster to a file.
func writeBackup(env *command.Env, c *cli.Context, args []string) error {
	if len(args) != 1 {
		return exit.Usagef("rota cluster backup FILE [--with-keys [--passphrase-file FILE]] [--force]")
	}
	if c.IsSet("passphrase-file") && !c.Bool("with-keys") {
		return exit.Usagef("--passphrase-file needs --with-keys: the passphrase encrypts the keys")
	}
	path := args[0]
	if _, err := os.Lstat(path); err == nil && !c.Bool("force") {
		return fmt.Errorf("%s exists: name another file, or overwrite it with --force", path)
	}
	req := api.BackupRequest{WithKeys: c.Bool("with-keys")}
	if req.WithKeys {
		var err error
		if req.Passphrase, err = passphrase(env, c.String("passphrase-file")); err != nil {
			return err
		}
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	m, err := saveBackup(c.Context, session, req, path, c.Bool("force"))
	if err != nil {
		return err
	}
	keys := "without keys"
	if m.Keys {
		keys = "with the keys of the cluster"
	}
	fmt.Fprintf(env.Stdout, "%s: cluster %s (%s) at index %d, generation %s, %s\n", path, m.Name, m.Cluster, m.Index,
		m.Generation, keys)
	return nil
}

// saveBackup writes the file under another name, and gives it its own once it is whole and on disk.
func saveBackup(ctx context.Context, session *command.Session, req api.BackupRequest, path string, force bool,
) (m backup.Manifest, err error) {
	var done, total atomic.Int64
	line := progress.Show(session.Stderr, progress.Task{What: "receiving the backup",
		Done: func() (int64, int64) { return done.Load(), total.Load() }})
	defer line.Stop()
	body, unpacked, err := session.Backup(ctx, req)
	if err != nil {
		return m, err
	}
	defer body.Close()
	total.Store(unpacked)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return m, err
	}
	defer os.Remove(f.Name()) // fails once it has its own name
	m, err = receive(f, body, path, func(r io.Reader) io.Reader { return progress.Reader(r, &done) })
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return m, err
	}
	if force {
		err = os.Rename(f.Name(), path)
	} else {
		err = os.Link(f.Name(), path) // fails if there is such a file now
	}
	if err != nil {
		return m, err
	}
	return m, durable.SyncDir(filepath.Dir(path))
}

// receive copies a backup to a file, and verifies it meanwhile.
func receive(to io.Writer, from io.Reader, path string, unpacked func(io.Reader) io.Reader) (backup.Manifest, error) {
	file := &writing{to: to}
	copied := io.TeeReader(from, file)
	m, _, err := backup.Read(copied, path, backup.Uses{Unpacked: unpacked})
	if err == nil {
		_, err = io.Copy(io.Discard, copied) // the end of the compressed form
	}
	switch {
	case file.err != nil:
		return m, fmt.Errorf("write %s: %w", path, file.err)
	case err != nil:
		return m, fmt.Errorf("the backup that the controller sent is incomplete; see its log: %w", err)
	}
	return m, nil
}

// writing keeps the error of a writer, to tell it from those of a reader.
type writing struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (w *writing) Write(p []byte) (n int, err error) {
	n, w.err = w.to.Write(p)
	return n, w.err
}

// passphrase reads a passphrase from a file, or twice from the terminal.
func passphrase(env *command.Env, path string) (string, error) {
	if path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		return checked(bytes.TrimRight(b, "\r\n"))
	}
	in, ok := env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return "", exit.Usagef("--with-keys needs a passphrase: give it at a terminal, or with --passphrase-file FILE")
	}
	var given [2][]byte
	for i, prompt := range []string{"Passphrase for the keys: ", "Again: "} {
		fmt.Fprint(env.Stderr, prompt)
		var err error
		given[i], err = term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(env.Stderr)
		if err != nil {
			return "", err
		}
	}
	if !bytes.Equal(given[0], given[1]) {
		return "", errors.New("the two passphrases differ")
	}
	return checked(given[0])
}

func checked(b []byte) (string, error) {
	if len(b) < backup.PassphraseMin {
		return "", fmt.Errorf("the passphrase has only %d bytes: at least %d are needed", len(b), backup.PassphraseMin)
	}
	return string(b), nil
}
