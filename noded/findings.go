package noded

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
)

// findingsMost bounds how much of the findings is read: a line for each policy of a job.
const findingsMost = 1 << 20

// Findings implements Bundles.
func (d *disk) Findings(id container.ID) ([]container.Finding, error) {
	f, err := os.Open(container.FindingsPath(filepath.Join(d.containers, id.String())))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []container.Finding
	lines := bufio.NewScanner(io.LimitReader(f, findingsMost))
	for lines.Scan() {
		var one container.Finding
		if json.Unmarshal(lines.Bytes(), &one) == nil { // a torn line is read the next time
			list = append(list, one)
		}
	}
	return list, lines.Err()
}

// findingsOf hands on what log policies have found since the last time. After a restart of this daemon everything is told again; the
// controllers take each policy once.
func (a *Agent) findingsOf(id container.ID) {
	a.mu.Lock()
	w := a.workers[id]
	look := w != nil && w.source != nil && w.source.policy
	a.mu.Unlock()
	if !look {
		return
	}
	list, err := a.Bundles.Findings(id)
	if err != nil {
		a.Log.Warn("findings of log policies cannot be read", "job", id.Job, "alloc", id.String(), "err", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock() // whoever finds nothing new knows by it that all of it is in the outbox: the worker's end comes after
	from := min(w.found, len(list))
	w.found = max(w.found, len(list))
	for _, one := range list[from:] {
		a.out.putFinding(cluster.WorkerReport{
			Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: cluster.WorkerRunning, Policy: one.Policy, Message: one.Line,
		})
	}
}
