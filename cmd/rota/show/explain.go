package show

import (
	"fmt"
	"io"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
)

// Quotas writes the quotas that apply to a job, with the users that hold them.
func Quotas(w io.Writer, quotas []api.Quota) {
	quotas = slices.DeleteFunc(slices.Clone(quotas), func(q api.Quota) bool {
		return q.Resource == api.QuotaSpecBytes && q.Used < q.Most/10 // few will ever see their end
	})
	if len(quotas) == 0 {
		return
	}
	fmt.Fprintln(w, "\nQUOTA")
	for i := range quotas {
		q := &quotas[i]
		text := q.Text
		switch {
		case !q.Binds || q.Kind == "te":
		case q.Kind == "limit":
			text += ": this job would exceed it"
		default:
			text += ": this job would borrow"
		}
		fmt.Fprintf(w, "    %s\n", Clean(text))
		for _, h := range q.Holders {
			fmt.Fprintf(w, "        %s: %s%s\n", DashIfEmpty(Whose(h.User, h.Account)), held(q.Resource, h.Held),
				behind(", ", jobs(len(h.Jobs), IDs(h.Jobs))))
		}
	}
}

// held writes an amount of a resource.
func held(resource string, n int64) string {
	switch resource {
	case "cores":
		return fmt.Sprintf("%d cores", n)
	case "memory":
		return fmt.Sprintf("%d MiB", n)
	}
	return fmt.Sprintf("%g GPUs", float64(n)/1000)
}

func jobs(n int, ids string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "job " + ids
	}
	return "jobs " + ids
}

// behind writes a text behind a separator, nothing for none.
func behind(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// AfterPreemption writes what would be if jobs of lower precedence left.
func AfterPreemption(w io.Writer, a *api.AfterPreemption) {
	if a == nil {
		return
	}
	fmt.Fprintf(w, "\nAFTER PREEMPTION (%s)\n    %s\n", a.By, Clean(a.Text))
	for _, s := range a.Spared {
		fmt.Fprintf(w, "%5d  %s%s\n", s.Count, Clean(s.Rule), behind(": ", jobs(len(s.Jobs), IDs(s.Jobs))))
	}
}

// Displaced writes a job that would be asked to leave for one that is planned.
func Displaced(d api.Displacement) string {
	job := "a job of another user"
	if d.Job != 0 {
		job = "job " + ForJob(d.Job, d.User, d.Account)
	}
	if d.Workers > 0 {
		job = fmt.Sprintf("%s of %s", Count(d.Workers, "worker", "workers"), job)
	}
	return fmt.Sprintf("%s: %s, grace %d s, %d GPU s lost", job, d.Cause, d.Grace, d.LostGPUSeconds)
}
