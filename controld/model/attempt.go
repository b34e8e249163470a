package model

// Succeeded reports whether a final worker did what it was meant to.
func (w *Worker) Succeeded() bool {
	return w.State == WorkerExited && w.ExitCode == 0 && w.Signal == 0 && !w.OOM && !w.Lease
}

// Trouble returns why the rest of a gang must stop after a worker that is not ok.
func (w *Worker) Trouble() Cause {
	switch {
	case w.Lease:
		return CauseLease
	case w.State == WorkerFailed && w.Started == 0:
		return CauseLaunch
	}
	return CauseFailed
}
