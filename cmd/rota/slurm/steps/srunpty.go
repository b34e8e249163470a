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

// useTerminal has the first task of a step that has begun use srun's terminal, if that is one: keys go to
// it as they are. sizes tells of other sizes, and that srun goes on after it was stopped; restore gives the
// terminal back.
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
		_ = term.Restore(int(in.Fd()), state) // the terminal may be gone
	}, nil
}

// sendSize tells the terminal of the step how large srun's is.
func (s *stepRun) sendSize() {
	if s.request.Terminal != nil {
		size := terminal.Size(s.Env)
		_ = s.conn.Write(stream.Size(0, size.Rows, size.Columns)) // its reader hears that it is lost
	}
}
