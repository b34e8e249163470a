package show

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// causeText says in words for whose sake a job left its place.
var causeText = map[model.Cause]string{
	model.CauseTE:       "a trial-and-error job takes its room",
	model.CauseReclaim:  "another account takes back its quota",
	model.CauseOrder:    "a job with less service takes its turn",
	model.CauseShrink:   "it gives up workers",
	model.CauseGrow:     "it gets more workers",
	model.CauseMigrate:  "it moves to other nodes",
	model.CauseDrain:    "its node is drained",
	model.CauseRequeue:  "it was asked to start again",
	model.CauseNodeLost: "its node was lost",
	model.CauseLease:    "its node was cut off for so long that its lease ended",
}

// Whose writes the user and the account of a job.
func Whose(user, account string) string {
	switch {
	case account == "":
		return Clean(user)
	case user == "":
		return Clean(account)
	}
	return Clean(user) + "/" + Clean(account)
}

// ForJob writes a job and whose it is, "" for none.
func ForJob(id model.JobID, user, account string) string {
	if id == 0 {
		return ""
	}
	if whose := Whose(user, account); whose != "" {
		return fmt.Sprintf("%d (%s)", id, whose)
	}
	return ID(id)
}

// Left writes why an attempt left its place and for which job; "" of one that did not have to.
func Left(a *api.Attempt) string {
	text, known := causeText[a.Cause]
	if !known {
		return ""
	}
	if job := ForJob(a.For, a.ForUser, a.ForAccount); job != "" {
		text += ", job " + job
	}
	return fmt.Sprintf("%s: %s", a.Cause, text)
}

// Leaving returns the attempt of a job that is leaving its place, nil if there is none.
func Leaving(j *api.Job) *api.Attempt {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].End == nil && causeText[j.Attempts[n-1].Cause] != "" {
		return &j.Attempts[n-1]
	}
	return nil
}

// LeavingFor writes, behind where a job runs, why it leaves and when it is killed.
func LeavingFor(j *api.Job) string {
	a := Leaving(j)
	if a == nil {
		return ""
	}
	return ": " + Left(a)
}

// LostGPUSeconds writes what a job has lost in all of its attempts that had to leave.
func LostGPUSeconds(j *api.Job) int64 {
	var lost int64
	for i := range j.Attempts {
		lost += j.Attempts[i].LostGPUSeconds
	}
	return lost
}

// AllLeft writes why a job has left its place, each time and for which job: te:12(alice/vision).
func AllLeft(j *api.Job) string {
	var all []string
	for i := range j.Attempts {
		a := &j.Attempts[i]
		if causeText[a.Cause] == "" {
			continue
		}
		text := string(a.Cause)
		if job := ForJob(a.For, a.ForUser, a.ForAccount); job != "" {
			text += ":" + strings.ReplaceAll(job, " ", "")
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

// Loss writes what makes up a loss.
func Loss(l *api.Lost) string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%d GPU seconds: %d of work, %d of grace, %d of restart", l.GPUSeconds, l.Work, l.Grace,
		l.Restart)
}
