package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// Times of a [Notifier].
const (
	readyRetry  = 100 * time.Millisecond // between two questions whether the daemon serves yet
	aliveWait   = 10 * time.Second       // for the answer to one of them
	statusEvery = 5 * time.Second        // between two looks at the status line, without a watchdog
	sendWait    = 2 * time.Second        // for a service manager that is busy
)

// Notifier tells the service manager (systemd, sd_notify) that the daemon is ready, what it does,
// and that it is alive. Without a service manager its methods do nothing.
type Notifier struct {
	socket   string        // "" without a service manager
	watchdog time.Duration // the daemon is restarted if it is silent for so long; 0: never
	log      *slog.Logger
	status   string // that was sent last

	mu      sync.Mutex
	unheard bool // the last message could not be sent
}

// NewNotifier reads the service manager's requests to this process from the environment. It removes
// them there, because programs that the daemon starts must not speak for it. Call it before any is
// started.
func NewNotifier(log *slog.Logger) *Notifier {
	n := &Notifier{socket: os.Getenv("NOTIFY_SOCKET"), log: log}
	_ = os.Unsetenv("NOTIFY_SOCKET") // it fails for malformed names only
	var err error
	if n.watchdog, err = systemd.SdWatchdogEnabled(true); err != nil {
		n.log.Warn("cannot answer the service manager's watchdog", "error", err)
	}
	return n
}

// Supervise says that the daemon is ready when it is alive for the first time. Then it keeps the
// watchdog and the status line up to date, until ctx ends, and says that the daemon stops. The
// watchdog gets no sign of life while the daemon is not alive. Alive waits until the daemon has
// shown that it serves and that its loops turn, or its context ends. status is one line about its
// work.
func (n *Notifier) Supervise(
	ctx context.Context, alive func(context.Context) error, status func() string,
) error {
	if n.socket == "" {
		return nil
	}
	defer n.send(systemd.SdNotifyStopping)
	if !n.awaitReady(ctx, alive, status) {
		return nil
	}
	every := statusEvery
	if n.watchdog > 0 {
		every = n.watchdog / 3
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			n.check(ctx, alive, every)
			n.showStatus(status())
		}
	}
}

// awaitReady waits until the daemon serves, and says so. It returns false if ctx has ended before.
func (n *Notifier) awaitReady(ctx context.Context, alive func(context.Context) error, status func() string) bool {
	for ctx.Err() == nil {
		if within(ctx, aliveWait, alive) == nil {
			n.status = status()
			if n.send(systemd.SdNotifyReady + "\nSTATUS=" + n.status) {
				return true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyRetry):
		}
	}
	return false
}

// check passes a sign of life on to the watchdog.
func (n *Notifier) check(ctx context.Context, alive func(context.Context) error, wait time.Duration) {
	if n.watchdog == 0 {
		return
	}
	if err := within(ctx, wait, alive); err == nil {
		n.send(systemd.SdNotifyWatchdog)
	} else if ctx.Err() == nil {
		n.log.Error("the daemon hangs, so the service manager's watchdog is not told that it is alive", "error", err)
	}
}

func (n *Notifier) showStatus(status string) {
	if status != n.status {
		n.status = status
		n.send("STATUS=" + status)
	}
}

// within calls f with a context that ends after wait.
func within(ctx context.Context, wait time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return f(ctx)
}

// Reload says that the daemon re-reads its settings, runs reload, and says that it is done.
func (n *Notifier) Reload(reload func()) {
	n.send(systemd.SdNotifyReloading)
	defer n.send(systemd.SdNotifyReady)
	reload()
}

// send sends one message and reports whether it could. The first failure in a row is logged.
func (n *Notifier) send(message string) bool {
	if n.socket == "" {
		return true
	}
	n.mu.Lock() // a reload may be under way
	defer n.mu.Unlock()
	err := n.write(message)
	if err != nil && !n.unheard {
		n.log.Warn("cannot tell the service manager of a change", "message", message, "error", err)
	}
	n.unheard = err != nil
	return err == nil
}

// write sends a message. systemd's own library reads the address from the environment each time,
// where it must not stay.
func (n *Notifier) write(message string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	err = conn.SetWriteDeadline(time.Now().Add(sendWait))
	if err == nil {
		_, err = conn.Write([]byte(message))
	}
	return errors.Join(err, conn.Close())
}
