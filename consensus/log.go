package consensus

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// newRaftLog returns a logger that lets the library write to slog.
func newRaftLog(to *slog.Logger) hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off}) // it writes nothing itself
	log.RegisterSink(raftLog{to})
	return log
}

// raftLog passes the library's messages on to slog. The library's information is detail to an
// operator, so it becomes debug. The node itself logs changes of the leader.
type raftLog struct{ to *slog.Logger }

// slogLevel returns the level of slog for a level of the library.
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
func (l raftLog) Accept(_ string, level hclog.Level, msg string, args ...any) {
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	l.to.Log(context.Background(), slogLevel(level), "raft: "+msg, args...)
}
