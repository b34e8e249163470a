package steps

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/terminal"
	"github.com/rota-hpc/rota/controld/api/stream"
)

// useTerminal connects srun's terminal, if it has one, to the step's first task: keys reach the
// task unchanged. sizes signals that the window has a new size or that srun continues after a stop;
// restore resets the terminal.
func (s *stepRun) useTerminal() (sizes <-chan os.Signal, restore func(), err error) {
	changed := make(chan os.Signal, 1)
	in, ok := s.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return changed, func() {}, nil
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, func() {}, fmt.Errorf("the terminal cannot be used: %w", err)
	}
	signal.Notify(changed, syscall.SIGWINCH, syscall.SIGCONT)
	return changed, func() {
		signal.Stop(changed)
		_ = term.Restore(int(in.Fd()), state) // the terminal may have gone away
	}, nil
}

// sendSize sends the size of srun's window to the step.
func (s *stepRun) sendSize() {
	if s.request.Terminal != nil {
		size := terminal.Size(s.Env)
		_ = s.conn.Write(stream.Size(0, size.Rows, size.Columns)) // the reader notices a lost connection
	}
}
