package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// heartbeatPeriod is how often a worker says that it is alive. Tests read the file to see which
// attempts ran when.
const heartbeatPeriod = 100 * time.Millisecond

// heartbeat appends "attempt worker step unix_ms" lines to a file that all workers of all attempts
// share.
type heartbeat struct {
	step atomic.Int64
	stop chan struct{}
	done chan error
}

// startHeartbeat writes the first line and beats until close. Without a directory it only keeps the
// step.
func startHeartbeat(dir string, attempt, rank, step int) (*heartbeat, error) {
	h := &heartbeat{stop: make(chan struct{}), done: make(chan error, 1)}
	h.step.Store(int64(step))
	if dir == "" {
		h.done <- nil
		return h, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "heartbeat"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open heartbeat: %w", err)
	}
	if err := h.line(f, attempt, rank); err != nil {
		return nil, errors.Join(fmt.Errorf("write heartbeat: %w", err), f.Close())
	}
	go func() { h.done <- errors.Join(h.beat(f, attempt, rank), f.Close()) }()
	return h, nil
}

// line is one write: appends of this size do not mix.
func (h *heartbeat) line(f *os.File, attempt, rank int) error {
	_, err := fmt.Fprintf(f, "%d %d %d %d\n", attempt, rank, h.step.Load(), time.Now().UnixMilli())
	return err
}

// beat writes a line at every tick and when it is stopped.
func (h *heartbeat) beat(f *os.File, attempt, rank int) error {
	tick := time.NewTicker(heartbeatPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.stop:
			return h.line(f, attempt, rank)
		}
		if err := h.line(f, attempt, rank); err != nil {
			return err
		}
	}
}

// close stops the beat and returns the first error it met.
func (h *heartbeat) close() error {
	close(h.stop)
	return <-h.done
}

// progressFile takes one JSON line a step; a nil file takes none.
type progressFile struct{ f *os.File }

func openProgress(path string) (*progressFile, error) {
	if path == "" {
		return &progressFile{}, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open progress file: %w", err)
	}
	return &progressFile{f}, nil
}

// progressLine is the format that schedulers read.
type progressLine struct {
	Step    int                `json:"step"`
	Saved   int                `json:"saved_step"`
	Time    time.Time          `json:"time"`
	Metrics map[string]float64 `json:"metrics"`
}

func (p *progressFile) line(step, saved int, loss float64) error {
	if p.f == nil {
		return nil
	}
	b, err := json.Marshal(progressLine{step, saved, time.Now().UTC(), map[string]float64{"loss": loss}})
	if err != nil {
		return fmt.Errorf("progress of step %d: %w", step, err)
	}
	if _, err := p.f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("progress of step %d: %w", step, err)
	}
	return nil
}

// finished says that the training is done, so that exit code 0 means that also if it had to leave just then.
func (p *progressFile) finished() error {
	if p.f == nil {
		return nil
	}
	if _, err := p.f.WriteString("{\"finished\":true}\n"); err != nil {
		return fmt.Errorf("progress after the last step: %w", err)
	}
	return nil
}

// Close closes the file, if there is one.
func (p *progressFile) Close() error {
	if p.f == nil {
		return nil
	}
	return p.f.Close()
}
