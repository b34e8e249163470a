package model

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// ReasonCode is the word that squeue users know, such as Resources or Priority.
type ReasonCode string

// Reason says in one code and a few numbers why something did not happen. Its text is made where it
// is shown.
type Reason struct {
	Code  ReasonCode `json:"code,omitempty"`
	Need  Vector     `json:"need,omitzero"`  // of one worker
	Have  Vector     `json:"have,omitzero"`  // on the node that comes nearest
	Want  int        `json:"want,omitempty"` // workers
	Fit   int        `json:"fit,omitempty"`  // workers that would fit now
	Node  string     `json:"node,omitempty"`
	For   JobID      `json:"for,omitempty"` // the job it waits behind
	Until Instant    `json:"until,omitempty"`
	Text  string     `json:"text,omitempty"` // a message from outside, such as a launch error
}

// Reason codes.
const (
	ReasonNone          ReasonCode = ""
	ReasonPriority      ReasonCode = "Priority"
	ReasonResources     ReasonCode = "Resources"
	ReasonReservation   ReasonCode = "Reservation"
	ReasonBackoff       ReasonCode = "Backoff"
	ReasonHeldUser      ReasonCode = "JobHeldUser"
	ReasonHeldAdmin     ReasonCode = "JobHeldAdmin"
	ReasonMaxRequeue    ReasonCode = "JobHoldMaxRequeue"
	ReasonLaunchFailure ReasonCode = "JobLaunchFailure"
	ReasonNodeDown      ReasonCode = "NodeDown"
	ReasonNotAvail      ReasonCode = "ReqNodeNotAvail"
	ReasonFragmentation ReasonCode = "Fragmentation"
	ReasonGang          ReasonCode = "GangIncomplete"
	ReasonNonZeroExit   ReasonCode = "NonZeroExitCode"
	ReasonOOM           ReasonCode = "OutOfMemory"
	ReasonTimeLimit     ReasonCode = "TimeLimit"
	ReasonBadConstraint ReasonCode = "BadConstraints"
	ReasonNotScheduled  ReasonCode = "None" // not considered yet
	ReasonDependency    ReasonCode = "Dependency"
	ReasonNeverMet      ReasonCode = "DependencyNeverSatisfied"
	ReasonBegin         ReasonCode = "BeginTime"
	ReasonArrayLimit    ReasonCode = "JobArrayTaskLimit"
	ReasonDeadline      ReasonCode = "DeadLine"
	ReasonMembers       ReasonCode = "Members"      // a parent job waits for its children
	ReasonPreempting    ReasonCode = "Preempting"   // others leave for it
	ReasonPreempted     ReasonCode = "Preempted"    // it has left for another
	ReasonNoVictim      ReasonCode = "NoVictim"     // no job may be preempted for it
	ReasonTELimit       ReasonCode = "TELimit"      // its account has as many trial-and-error jobs as it may
	ReasonLimit         ReasonCode = "AccountLimit" // its account, or its user in it, may not hold more at once
)

// Sentence says the reason in plain English, without the code and without a full stop, and "" for
// no reason. What the numbers of the reason leave open is left out. A message from outside (Text)
// comes last.
func (r Reason) Sentence() string {
	s := r.plain()
	switch {
	case r.Text == "":
		return s
	case s == "":
		return r.Text
	}
	return s + ": " + r.Text
}

func (r Reason) plain() string {
	switch r.Code {
	case ReasonNone:
		return ""
	case ReasonNotScheduled:
		return "it fits and starts with the next scheduling cycle"
	case ReasonPriority:
		return "its room goes to " + jobOr(r.For, "a job that comes first")
	case ReasonReservation:
		return "the room it would need is reserved for " + jobOr(r.For, "another job")
	case ReasonResources:
		if r.Want > 0 && r.Fit >= r.Want {
			return "" // it is not for lack of room: the text says what is missing
		}
		return "no node has enough free for one worker" + r.shortage()
	case ReasonFragmentation:
		return "enough is free in total, but not together on one node" + r.shortage()
	case ReasonGang:
		return fmt.Sprintf("only %d of its %d workers would fit now, and a gang starts whole", r.Fit, r.Want)
	case ReasonNodeDown:
		return "it would need a node that is down" + onNode(r.Node)
	case ReasonNotAvail:
		return "the nodes it could use are down, drained or avoided after failures there" + onNode(r.Node)
	case ReasonBadConstraint:
		if r.Fit > 0 {
			return fmt.Sprintf("the whole cluster could hold only %d of its %d workers", r.Fit, r.Want)
		}
		return "no node of the cluster could ever run it" + r.shortage()
	}
	return r.plainOfJob()
}

// plainOfJob covers what lies with the job itself rather than with the cluster.
func (r Reason) plainOfJob() string {
	switch r.Code {
	case ReasonArrayLimit:
		return fmt.Sprintf("%d elements of its array live, and max_parallel allows %d", r.Fit, r.Want)
	case ReasonMembers:
		return "its members run"
	case ReasonBackoff:
		return "it waits a while after a failure before it is tried again"
	case ReasonHeldUser:
		return "its owner holds it; rota release lets it go"
	case ReasonHeldAdmin:
		return "an operator holds it"
	case ReasonMaxRequeue:
		return "it asked to be requeued too often, so it is held; rota release tries again"
	case ReasonLaunchFailure:
		return "it could not be launched" + onNode(r.Node)
	case ReasonNonZeroExit:
		if r.Want > 0 {
			return fmt.Sprintf("%d of its %d members failed", r.Fit, r.Want)
		}
		return "its command failed"
	case ReasonOOM:
		return "it used more memory than it had asked for"
	case ReasonTimeLimit:
		return "it ran into its time limit"
	}
	return r.plainOfOthers()
}

// plainOfOthers covers what a job has been told to wait for.
func (r Reason) plainOfOthers() string {
	switch r.Code {
	case ReasonDependency:
		switch {
		case r.Text != "":
			return "" // the text says it all
		case r.Until != 0:
			return "what it depends on has come, and it waits for as long after that as it was told to"
		}
		return "it waits for other jobs"
	case ReasonNeverMet:
		return "what it needs of " + jobOr(r.For, "another job") + " can never come any more"
	case ReasonBegin:
		return "it is not to begin before a time of its own"
	case ReasonDeadline:
		return "it could no longer end by its deadline"
	}
	return r.plainOfPreemption()
}

// plainOfPreemption covers what jobs do to each other.
func (r Reason) plainOfPreemption() string {
	switch r.Code {
	case ReasonPreempting:
		if r.For == 0 {
			return "room is being freed that is kept for it" + onNode(r.Node)
		}
		return jobOr(r.For, "") + " is leaving to make room for it" + onNode(r.Node)
	case ReasonPreempted:
		return "it has left its room to " + jobOr(r.For, "another job")
	case ReasonNoVictim:
		return "it needs room now, and none of the jobs that hold some may be asked to leave"
	case ReasonLimit:
		return "its account, or its user in it, may not hold more at once"
	case ReasonTELimit:
		return "its account has as many GPUs in trial-and-error jobs as it may"
	}
	return string(r.Code)
}

// shortage lists the resources of which the nearest node has too little.
func (r Reason) shortage() string {
	var lacks []string
	if r.Need.GPUs > r.Have.GPUs {
		lacks = append(lacks, fmt.Sprintf("%s of %s GPUs", gpuText(r.Have.GPUs), gpuText(r.Need.GPUs)))
	}
	if r.Need.Cores > r.Have.Cores {
		lacks = append(lacks, fmt.Sprintf("%d of %d cores", max(r.Have.Cores, 0), r.Need.Cores))
	}
	if r.Need.Memory > r.Have.Memory {
		lacks = append(lacks, fmt.Sprintf("%s of %s memory", sizeText(r.Have.Memory), sizeText(r.Need.Memory)))
	}
	switch {
	case len(lacks) == 0:
		return onNode(r.Node)
	case r.Node == "":
		return ": " + strings.Join(lacks, ", ")
	}
	return "; the nearest, " + r.Node + ", has " + strings.Join(lacks, ", ")
}

func onNode(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

func jobOr(id JobID, otherwise string) string {
	if id == 0 {
		return otherwise
	}
	return fmt.Sprintf("job %d", id)
}

// gpuText writes thousandths of a GPU as GPUs.
func gpuText(milli int64) string {
	milli = max(milli, 0)
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%d.%03d", milli/1000, milli%1000)
}

// sizeText rounds down, so that "3 of 4 GiB" is never shown as enough.
func sizeText(b jobspec.Bytes) string {
	b = max(b, 0)
	for _, unit := range []struct {
		size jobspec.Bytes
		name string
	}{{jobspec.TiB, "TiB"}, {jobspec.GiB, "GiB"}, {jobspec.MiB, "MiB"}, {jobspec.KiB, "KiB"}} {
		if b >= 10*unit.size || b >= unit.size && b%unit.size == 0 {
			return fmt.Sprintf("%d %s", b/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d B", b)
}
