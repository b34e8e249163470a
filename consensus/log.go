package consensus

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// raftLog lets the library write to slog. What it calls information is detail to an operator, so it becomes debug; the node
// itself says when leadership changes.
type raftLog struct {
	to   *slog.Logger
	name string
	args []any
}

// level translates a level.
func level(l hclog.Level) slog.Level {
	switch {
	case l >= hclog.Error:
		return slog.LevelError
	case l == hclog.Warn:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Log implements hclog.Logger.
func (l *raftLog) Log(lv hclog.Level, msg string, args ...any) {
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.to.Log(context.Background(), level(lv), "raft: "+msg, args...)
}

// Trace implements hclog.Logger.
func (l *raftLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug implements hclog.Logger.
func (l *raftLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info implements hclog.Logger.
func (l *raftLog) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn implements hclog.Logger.
func (l *raftLog) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error implements hclog.Logger.
func (l *raftLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *raftLog) enabled(lv hclog.Level) bool { return l.to.Enabled(context.Background(), level(lv)) }

// IsTrace implements hclog.Logger.
func (l *raftLog) IsTrace() bool { return false }

// IsDebug implements hclog.Logger.
func (l *raftLog) IsDebug() bool { return l.enabled(hclog.Debug) }

// IsInfo implements hclog.Logger.
func (l *raftLog) IsInfo() bool { return l.enabled(hclog.Info) }

// IsWarn implements hclog.Logger.
func (l *raftLog) IsWarn() bool { return l.enabled(hclog.Warn) }

// IsError implements hclog.Logger.
func (l *raftLog) IsError() bool { return l.enabled(hclog.Error) }

// ImpliedArgs implements hclog.Logger.
func (l *raftLog) ImpliedArgs() []any { return l.args }

// With implements hclog.Logger.
func (l *raftLog) With(args ...any) hclog.Logger {
	all := append(append([]any(nil), l.args...), args...)
	return &raftLog{to: l.to.With(args...), name: l.name, args: all}
}

// Name implements hclog.Logger.
func (l *raftLog) Name() string { return l.name }

// Named implements hclog.Logger.
func (l *raftLog) Named(name string) hclog.Logger {
	return l.ResetNamed(strings.TrimPrefix(l.name+"."+name, "."))
}

// ResetNamed implements hclog.Logger.
func (l *raftLog) ResetNamed(name string) hclog.Logger {
	return &raftLog{to: l.to, name: name, args: l.args}
}

// SetLevel does nothing: slog's handler decides.
func (l *raftLog) SetLevel(hclog.Level) {}

// GetLevel implements hclog.Logger.
func (l *raftLog) GetLevel() hclog.Level { return hclog.NoLevel }

// StandardLogger implements hclog.Logger.
func (l *raftLog) StandardLogger(opts *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(opts), "", 0)
}

// StandardWriter implements hclog.Logger: every line becomes a warning.
func (l *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

// lineWriter logs what is written to it.
type lineWriter struct{ log *raftLog }

// Write implements io.Writer.
func (w lineWriter) Write(b []byte) (int, error) {
	w.log.Warn(strings.TrimSpace(string(b)))
	return len(b), nil
}
