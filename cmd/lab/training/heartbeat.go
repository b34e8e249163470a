// Package training reads what the example trainer has written while a cluster ran it: when which
// attempt was alive, and how far it came. It is evidence that owes nothing to the cluster.
package training

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// File is the name of the heartbeat file in a trainer's directory.
const File = "heartbeat"

// beat is one line of a trainer's heartbeat.
type beat struct {
	attempt, rank, step int
	at                  time.Time
}

// Span is from the first to the last beat of a worker.
type Span struct{ First, Last time.Time }

// Life is what the heartbeats say of one attempt.
type Life struct {
	Attempt     int
	First, Last time.Time
	From, To    int // steps
	Workers     map[int]Span
}

// Lives returns the attempts in a heartbeat file, in order. A job that never ran has no file and no
// attempts.
func Lives(path string) ([]Life, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byAttempt := map[int]*Life{}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var x beat
		var ms int64
		if _, err := fmt.Sscanf(lines.Text(), "%d %d %d %d", &x.attempt, &x.rank, &x.step, &ms); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		x.at = time.UnixMilli(ms)
		l := byAttempt[x.attempt]
		if l == nil {
			l = &Life{Attempt: x.attempt, First: x.at, Last: x.at, From: x.step, Workers: map[int]Span{}}
			byAttempt[x.attempt] = l
		}
		l.add(x)
	}
	var all []Life
	for _, l := range byAttempt {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Life) int { return a.Attempt - b.Attempt })
	return all, nil
}

func (l *Life) add(x beat) {
	w, ok := l.Workers[x.rank]
	if !ok || x.at.Before(w.First) {
		w.First = x.at
	}
	if !ok || x.at.After(w.Last) {
		w.Last = x.at
	}
	l.Workers[x.rank] = w
	l.From, l.To = min(l.From, x.step), max(l.To, x.step)
	if x.at.Before(l.First) {
		l.First = x.at
	}
	if x.at.After(l.Last) {
		l.Last = x.at
	}
}

// Alive is how long the workers of the attempt beat, added up.
func (l *Life) Alive() time.Duration {
	var sum time.Duration
	for _, w := range l.Workers {
		sum += w.Last.Sub(w.First)
	}
	return sum
}

// Overlap is how long an attempt still beat after the next one's first beat; 0 or less if it had
// ended by then.
func (l *Life) Overlap(next *Life) time.Duration { return l.Last.Sub(next.First) }
