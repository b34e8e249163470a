package input

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// ReadFile reads and checks a job file or a script; "-" is standard input.
func ReadFile(env *command.Env, name string, c *cli.Context) (jobfile.Read, error) {
	src, shown, dir, err := jobfile.ReadFile(name, env.Stdin)
	if err != nil {
		return jobfile.Read{}, UnreadableFile(err)
	}
	if !looksLikeScript(name, src) {
		return LoadFile(env, c, shown, src, dir)
	}
	req, err := readScript(env, c, name, src, nil, "")
	if err != nil {
		return jobfile.Read{}, err
	}
	return jobfile.Read{Job: req.Job}, req.check(env)
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// UnreadableFile returns the error for a job file or script that cannot be read.
func UnreadableFile(err error) error {
	e := exit.Usagef("job file: %v", err)
	if errors.Is(err, jobfile.ErrNotAJobFile) {
		e.Text = err.Error()
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "pass the path of a job file or a script, or - for standard input"
	}
	return e
}
