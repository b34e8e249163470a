package slurm

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
)

// terminalSize returns the size of srun's terminal, or the usual one if it has none.
func (t *tool) terminalSize() api.TerminalSize {
	for _, f := range []any{t.Stdin, t.Stdout, t.Stderr} {
		if file, ok := f.(*os.File); ok {
			if columns, rows, err := term.GetSize(int(file.Fd())); err == nil && rows > 0 && columns > 0 {
				return api.TerminalSize{Rows: uint16(rows), Columns: uint16(columns)} //nolint:gosec // they are from 16 bits
			}
		}
	}
	return api.TerminalSize{Rows: 24, Columns: 80}
}

// useTerminal has the first task of the step use srun's terminal, if that is one: keys go to it as they
// are, and it is told of other sizes. stop gives the terminal back.
func (s *stepRun) useTerminal(ctx context.Context) (stop func(), err error) {
	in, ok := s.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return func() {}, nil
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be used: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	sizes := make(chan os.Signal, 1)
	signal.Notify(sizes, syscall.SIGWINCH)
	conn := s.conn
	go func() {
		for {
			select {
			case <-sizes:
				size := s.terminalSize()
				_ = conn.Write(stream.Size(0, size.Rows, size.Columns)) // its reader hears that it is lost
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(sizes)
		cancel()
		_ = term.Restore(int(in.Fd()), state) // the terminal may be gone
	}, nil
}
