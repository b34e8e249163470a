package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

// Share makes the directory below dir that the jobs of a cluster share, with the trainer in its
// folder bin. Any user may write to it.
func Share(bin, dir string) (string, error) {
	shared := filepath.Join(dir, "shared")
	trainer, err := os.ReadFile(filepath.Join(bin, "trainer"))
	if err != nil {
		return "", err
	}
	return shared, errors.Join(os.Chmod(dir, 0o755), OpenDir(shared), os.Mkdir(filepath.Join(shared, "bin"), 0o755),
		os.WriteFile(filepath.Join(shared, "bin", "trainer"), trainer, 0o755))
}

// OpenDir makes a directory that the users of jobs may write to.
func OpenDir(dir string) error { return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o1777)) }

// Job is a job of one group with one task. Each worker has a node of its own.
func Job(name, dir string, hold bool, r jobspec.Resources, workers int, command ...string) *jobspec.Job {
	return &jobspec.Job{
		Name: name, Hold: hold, Workdir: dir,
		Groups: []jobspec.Group{{Name: "main", Count: workers, MaxWorkersPerNode: 1, Tasks: []jobspec.Task{{
			Name: "main", Command: command, Resources: r,
		}}}},
	}
}

// KeepLogs copies the logs of the daemons to a directory.
func (c *Cluster) KeepLogs(to string) error {
	errs := []error{os.MkdirAll(to, 0o755)}
	for _, d := range slices.Concat(c.Controllers, c.Nodes) {
		b, err := os.ReadFile(d.Log)
		errs = append(errs, err, os.WriteFile(filepath.Join(to, filepath.Base(d.Log)), b, 0o644))
	}
	return errors.Join(errs...)
}

// Sleep waits, and returns false when ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
