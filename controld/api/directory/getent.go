package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// errNoHelper says that this machine has no getent.
var errNoHelper = errors.New("no getent on this machine")

// keyUnknown is the exit status of getent for a key that is not in the database.
const keyUnknown = 2

// getent asks the C library in a process of its own, which may hang as long as its server does.
func getent(ctx context.Context, database, key string) (string, error) {
	c := exec.CommandContext(ctx, "getent", database, key)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	out := &bounded{most: mostOutput}
	c.Stdout = out
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errNoHelper
	case errors.As(err, &exit) && exit.ExitCode() == keyUnknown:
		return "", ErrUnknown
	case err != nil:
		return "", fmt.Errorf("%w: getent %s %s: %w", ErrNoAnswer, database, key, err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	return line, nil
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	most int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.most-b.Len())])
	return len(p), nil
}
