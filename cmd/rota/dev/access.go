package dev

import "github.com/rota-hpc/rota/cmd/rota/command"

// noteNoWrite says so before jobs fail if the user as which root's jobs run cannot write where they
// are submitted from.
func (d *devCluster) noteNoWrite() {
	u, err := command.HostUserOf(d.opts.jobsAs)
	if err != nil {
		return // the controllers say so
	}
	if !u.CanWrite(d.opts.from) {
		d.Notef("jobs of root run as %s, which cannot write to %s: they can write to %s, or use \"chmod o+rwx .\"",
			d.opts.jobsAs, d.opts.from, d.path("shared"))
	}
}
