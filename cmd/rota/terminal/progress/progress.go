// Package progress shows on a terminal how far a long task is, and how long the rest will take. Tasks know
// nothing of it: it reads their counters from outside.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec"
)

const (
	patience = 2 * time.Second        // a task that is over by then shows nothing
	interval = 200 * time.Millisecond // between two looks at the counters, and so between two lines
)

// Task is a task whose progress is shown.
type Task struct {
	What string // such as "simulating"
	Unit string // such as "jobs"; "": bytes
	// Done returns how much is done, and of how much; a total of 0 is unknown. It is called beside the task.
	// nil: only the time is shown.
	Done func() (done, total int64)
}

// Line is the line of a terminal that shows a task. Write messages to the terminal through it while the task
// goes on. The nil Line is that of a task that is not shown.
type Line struct {
	task  Task
	to    *os.File
	stop  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	began time.Time
	first sample // the first that something was done by
	shown string // what is on the terminal now
}

// sample is a value of the counter at a time.
type sample struct {
	at   time.Time
	done int64
}

// Show shows a task until [Line.Stop]. It returns nil, and shows nothing, if w is no terminal.
func Show(w io.Writer, t Task) *Line {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	l := &Line{task: t, to: f, stop: make(chan struct{}), began: time.Now()}
	l.ended.Go(func() {
		every := time.NewTicker(interval)
		defer every.Stop()
		for {
			select {
			case <-l.stop:
				return
			case now := <-every.C:
				l.update(now)
			}
		}
	})
	return l
}

// Stop removes the line. The task is over.
func (l *Line) Stop() {
	if l == nil {
		return
	}
	close(l.stop)
	l.ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put("")
}

// Write writes a message above the line. It implements io.Writer.
func (l *Line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put("")
	return l.to.Write(p)
}

// Without calls do, which has the terminal for itself meanwhile, such as for a question.
func (l *Line) Without(do func()) {
	if l == nil {
		do()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put("")
	from := time.Now()
	do()
	away := time.Since(from) // the task has waited
	l.began, l.first.at = l.began.Add(away), l.first.at.Add(away)
}

// update reads the counter, and shows the line if it is time.
func (l *Line) update(now time.Time) {
	var done, total int64
	if l.task.Done != nil {
		done, total = l.task.Done()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first.at.IsZero() && done > 0 {
		l.first = sample{now, done}
	}
	if now.Sub(l.began) >= patience {
		l.put(show.Cut(l.text(now, done, total), l.room()))
	}
}

// room returns how many columns the line may have: a terminal goes to the next line behind its last one.
func (l *Line) room() int {
	width, _, err := term.GetSize(int(l.to.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return width - 1
}

// text is the line: simulating: 12 of 100 jobs (12%), about 2m10s left.
func (l *Line) text(now time.Time, done, total int64) string {
	amount := func(n int64) string {
		if l.task.Unit == "" {
			return show.Size(jobspec.Bytes(n))
		}
		return fmt.Sprint(n)
	}
	text, unit := l.task.What, ""
	if l.task.Unit != "" {
		unit = " " + l.task.Unit
	}
	if total <= 0 {
		if done > 0 {
			text += ": " + amount(done) + unit
		}
		return fmt.Sprintf("%s, %v so far", text, now.Sub(l.began).Round(time.Second))
	}
	done = min(done, total)
	text += ": " + amount(done) + " of " + amount(total) + unit
	text += fmt.Sprintf(" (%d%%)", 100*done/total)
	if rest, known := l.rest(now, done, total); known {
		text += fmt.Sprintf(", about %v left", rest)
	}
	return text
}

// rest estimates the time until the end by the mean rate since something was done first.
func (l *Line) rest(now time.Time, done, total int64) (time.Duration, bool) {
	moved, took := done-l.first.done, now.Sub(l.first.at)
	if moved <= 0 || took < time.Second {
		return 0, false
	}
	return time.Duration(float64(took) / float64(moved) * float64(total-done)).Round(time.Second), true
}

// put replaces what is on the terminal. It overwrites with spaces, which every terminal knows.
func (l *Line) put(text string) {
	if text == l.shown {
		return
	}
	spaces := max(0, show.Width(l.shown)-show.Width(text))
	end := ""
	if text == "" {
		end = "\r"
	}
	// a terminal that is gone is noticed where the task writes its result
	_, _ = io.WriteString(l.to, "\r"+text+strings.Repeat(" ", spaces)+end)
	l.shown = text
}

// Reader counts what is read from r.
func Reader(r io.Reader, count *atomic.Int64) io.Reader { return &reader{r, count} }

type reader struct {
	from  io.Reader
	count *atomic.Int64
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.count.Add(int64(n))
	return n, err
}
