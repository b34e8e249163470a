package rotatest

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Terminal is a pseudo-terminal that a command writes to.
type Terminal struct {
	*os.File // the command's side

	mu      sync.Mutex
	changed *sync.Cond
	text    strings.Builder
	closed  bool
}

// endOfOutput is a character that no command writes.
const endOfOutput = "\x1d"

// NewTerminal opens a terminal of so many columns until the end of the test, and skips the test where there are
// none.
func NewTerminal(t testing.TB, columns int) *Terminal {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	term := &Terminal{File: tty}
	term.changed = sync.NewCond(&term.mu)
	var reading sync.WaitGroup
	reading.Go(func() { term.read(master) })
	t.Cleanup(func() {
		tty.Close()
		reading.Wait()
		master.Close()
	})
	return term
}

// read keeps what the terminal gets until it is closed.
func (t *Terminal) read(master *os.File) {
	b := make([]byte, 4096)
	for {
		n, err := master.Read(b)
		t.mu.Lock()
		t.text.Write(b[:n])
		t.closed = t.closed || err != nil
		t.changed.Broadcast()
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Await waits until the terminal has got a text, for a minute at most, and returns all of it so far.
func (t *Terminal) Await(text string) string {
	late := time.AfterFunc(time.Minute, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.closed = true
		t.changed.Broadcast()
	})
	defer late.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for !t.closed && !strings.Contains(t.text.String(), text) {
		t.changed.Wait()
	}
	return strings.ReplaceAll(t.text.String(), "\r\n", "\n")
}

// Shown returns all that the terminal has got. The command is over.
func (t *Terminal) Shown() string {
	_, _ = t.WriteString(endOfOutput) // if it is closed, Await returns too
	text, _, _ := strings.Cut(t.Await(endOfOutput), endOfOutput)
	return text
}
