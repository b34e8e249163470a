package show

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// JobName returns the name of a job: 123, or 123_4 for an array task. The pending tasks of an array
// are 123_[5-9%2], and a group job is 123.train.
func JobName(j *api.Job) string {
	switch {
	case j.Array.Job != 0 && j.Array.Index != nil:
		return fmt.Sprintf("%d_%d", j.Array.Job, *j.Array.Index)
	case j.Array.Indices != "":
		return fmt.Sprintf("%d_[%s]", j.ID, j.Array.Indices)
	case j.Group != nil:
		return fmt.Sprintf("%d.%s", j.Group.Job, j.Group.Name)
	}
	return ID(j.ID)
}

// IsArray reports whether a job is an array and not one of its tasks.
func IsArray(j *api.Job) bool { return j.Array.Size > 0 && j.Array.Index == nil }

// IsPipeline reports whether a job has groups that are jobs of their own.
func IsPipeline(j *api.Job) bool { return len(j.Groups) > 0 && j.Groups[0].ID != 0 }

// PendingTasks returns a job for each pending task of an array, nil of any other job.
func PendingTasks(j *api.Job) []api.Job {
	indices, _, _ := strings.Cut(j.Array.Indices, "%")
	runs, err := jobspec.ParseIndices(indices)
	if indices == "" || err != nil {
		return nil
	}
	var all []api.Job
	for _, run := range runs {
		for n := range run.Len() {
			index := run.First + n*run.Step
			task := *j
			task.Array = api.ArrayPlace{Job: j.ID, Index: &index}
			task.Code, task.State, task.Elapsed, task.Started = model.Pending, "PENDING", 0, nil
			all = append(all, task)
		}
	}
	return all
}

// Dependencies writes the unmet dependencies of a job as sbatch takes them.
func Dependencies(j *api.Job) string {
	var all []string
	for _, d := range j.Dependencies {
		text := d.Type
		for _, id := range d.Jobs {
			text += ":" + ID(id)
		}
		if d.Match == "any" {
			text = "any of " + text
		}
		if d.Delay > 0 {
			text += "+" + Clock(d.Delay)
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

// Exit writes an exit code and a signal as Slurm does: code:signal.
func Exit(j *api.Job) string { return fmt.Sprintf("%d:%d", j.ExitCode, j.Signal) }

// UserName returns the name of a user, its number if this machine does not know it.
func UserName(uid uint32) string {
	if u, err := directory.Machine.UserByID(uid); err == nil {
		return u.Name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// CancelledBy says which user has cancelled a job, "" if that was its owner, or if it was not cancelled.
func CancelledBy(j *api.Job) string {
	if j.CancelledBy == nil || *j.CancelledBy == j.UID || j.Code != model.Cancelled {
		return ""
	}
	return "user " + Clean(UserName(*j.CancelledBy))
}

// Reason writes the code and the text of a reason.
func Reason(r api.Reason) string {
	switch {
	case r.Code == "":
		return r.Text
	case r.Text == "":
		return r.Code
	}
	return fmt.Sprintf("%s: %s", r.Code, r.Text)
}

// ID writes the id of a job.
func ID(id model.JobID) string { return strconv.FormatInt(int64(id), 10) }

// NodeCount returns how many nodes a job has, or may have at most while it is pending.
func NodeCount(j *api.Job) int {
	if n := len(Distinct(j.Nodes)); n > 0 {
		return n
	}
	return j.Workers
}

// Nodes writes how many nodes a job has; for an elastic job, how many workers.
func Nodes(j *api.Job) string {
	if j.Elastic != nil {
		return Workers(j)
	}
	return strconv.Itoa(NodeCount(j))
}

// Workers writes how many workers a job has; for an elastic job with its limits: 2/1-4.
func Workers(j *api.Job) string {
	if e := j.Elastic; e != nil {
		return fmt.Sprintf("%d/%d-%d", e.Workers, e.Min, e.Max)
	}
	return strconv.Itoa(j.Workers)
}

// IDs writes ids with commas.
func IDs(ids []model.JobID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = ID(id)
	}
	return strings.Join(texts, ",")
}

// Usage returns what the last attempt of a job has used of which that is known; zero of none.
func Usage(j *api.Job) api.Usage {
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		if u := j.Attempts[i].Usage; u != nil {
			return *u
		}
	}
	return api.Usage{}
}

// CPUTime returns the processor time that all attempts of a job have used.
func CPUTime(j *api.Job) jobspec.Seconds {
	var sum float64
	for i := range j.Attempts {
		if u := j.Attempts[i].Usage; u != nil {
			sum += u.CPUSeconds
		}
	}
	return jobspec.Seconds(sum)
}
