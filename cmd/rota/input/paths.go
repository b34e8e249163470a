package input

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// WarnOfPaths warns about a working directory, an image or a place for output that is missing or
// that the submitter may not write. It judges as far as this host can tell. It refuses nothing,
// since nodes may have other disks: a path whose first directory is not on this host is left to
// them. Root, which may write everywhere, is warned once it is known as which other user its jobs
// run.
func WarnOfPaths(env *command.Env, req *Submission) {
	said := wrongPaths(req.Job, jobUser{"you", "you", func(dir string) bool {
		return os.Getuid() == 0 || unix.Access(dir, unix.W_OK|unix.X_OK) == nil
	}})
	req.warn(env, said)
	env.RunAs = func(user string) {
		u, err := command.HostUserOf(user)
		if err != nil {
			return // it is one of the nodes alone
		}
		more := wrongPaths(req.Job, jobUser{"the job's user " + user, "that user", u.CanWrite})
		req.warn(env, slices.DeleteFunc(more, func(w script.Problem) bool { return slices.Contains(said, w) }))
	}
}

// jobUser is the user as which a job runs, as a warning calls it, first and then again.
type jobUser struct {
	name, again string
	canWrite    func(dir string) bool // on this host
}

// wrongPaths returns warnings about the paths of a job.
func wrongPaths(job *jobspec.Job, by jobUser) (warnings script.Problems) {
	for _, p := range pathsOf(job) {
		if text, hint := p.wrong(by); text != "" {
			w := script.Problem{Kind: script.Warning, Code: script.CodeUnclear, Text: show.Clean(p.what + " " + text),
				Hint: hint}
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

// usedPath is a directory that a job needs: with write it writes there, and the node makes it if it
// is missing.
type usedPath struct {
	what  string
	dir   string
	write bool
}

// pathsOf returns the directories that are known before the job runs.
func pathsOf(job *jobspec.Job) []usedPath {
	list := []usedPath{{what: "the working directory", dir: job.Workdir}}
	for _, g := range job.Groups {
		for _, t := range g.Tasks {
			known := func(text string) bool { return text != "" && !(t.Template && strings.Contains(text, "${")) }
			if known(t.Image) {
				list = append(list, usedPath{what: "the image", dir: t.Image})
			}
			if t.Log == nil {
				continue
			}
			for _, pattern := range []string{t.Log.Stdout, t.Log.Stderr} {
				if !known(pattern) || strings.HasPrefix(pattern, "/dev/") {
					continue
				}
				if !path.IsAbs(pattern) {
					pattern = path.Join(job.Workdir, pattern)
				}
				list = append(list, usedPath{what: "the output's directory", dir: literalDir(pattern), write: true})
			}
		}
	}
	return list
}

// literalDir returns the directory of a pattern for output, up to the first directory whose name is
// known only once the job runs.
func literalDir(pattern string) string {
	before, _, _ := strings.Cut(strings.ReplaceAll(pattern, "%%", "\x00"), "%")
	return strings.ReplaceAll(path.Dir(before), "\x00", "%")
}

// wrong says what is wrong with a path on this host, and what to do about it. It is "" if nothing is,
// or if this host cannot tell.
func (p usedPath) wrong(by jobUser) (text, hint string) {
	if !path.IsAbs(p.dir) {
		return "", ""
	}
	if top, _, more := strings.Cut(strings.TrimPrefix(path.Clean(p.dir), "/"), "/"); more {
		if _, err := os.Stat("/" + top); err != nil {
			return "", ""
		}
	}
	const elsewhere = "the job fails unless its nodes have this directory"
	info, err := os.Stat(p.dir)
	for p.write && errors.Is(err, os.ErrNotExist) { // the node makes it
		p.dir = path.Dir(p.dir)
		info, err = os.Stat(p.dir)
	}
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return fmt.Sprintf("%s does not exist on this host: %s", p.dir, elsewhere), "create it, or correct its name"
	case err != nil:
		return fmt.Sprintf("%s cannot be checked: %v", p.dir, errors.Unwrap(err)), ""
	case !info.IsDir():
		return p.dir + " is not a directory: the job cannot start with it", "give a directory"
	case p.write && !by.canWrite(p.dir):
		return fmt.Sprintf("%s cannot be written by %s on this host: the job fails unless %s may write there on its nodes",
			p.dir, by.name, by.again), "write the output to another directory"
	}
	return "", ""
}
