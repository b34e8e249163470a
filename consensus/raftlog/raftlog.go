// Package raftlog forwards the messages of hashicorp/raft to slog.
package raftlog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// New returns a logger that forwards the library's messages to slog.
func New(to *slog.Logger) hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off}) // the logger itself writes nothing
	log.RegisterSink(sink{to})
	return log
}

// sink takes the messages of the library. Its info messages are details for an
// operator, so they become debug messages. The node itself logs changes of the leader.
type sink struct{ to *slog.Logger }

// slogLevel converts a level of the library to slog.
func slogLevel(l hclog.Level) slog.Level {
	switch {
	case l >= hclog.Error:
		return slog.LevelError
	case l == hclog.Warn:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Accept implements hclog.SinkAdapter.
func (l sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.to.Log(context.Background(), slogLevel(level), "raft: "+msg, args...)
}
