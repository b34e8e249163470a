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
	Code ReasonCode `json:"code,omitempty"`
	Need Vector     `json:"need,omitzero"`  // of one worker
	Have Vector     `json:"have,omitzero"`  // on the node that comes nearest
	Want int        `json:"want,omitempty"` // workers
	Fit  int        `json:"fit,omitempty"`  // workers that would fit now
	Node string     `json:"node,omitempty"`
	For  JobID      `json:"for,omitempty"` // the job it waits behind
	// As is what For is called if not by its id alone, such as 7_3; "": by its id
	As    string  `json:"as,omitempty"`
	Until Instant `json:"until,omitempty"`
	Text  string  `json:"text,omitempty"` // a message from outside, such as a launch error
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
	ReasonNodeLost      ReasonCode = "NodeLost" // a node on which it may still run is down
	ReasonFragmentation ReasonCode = "Fragmentation"
	ReasonGang          ReasonCode = "GangIncomplete"
	ReasonNonZeroExit   ReasonCode = "NonZeroExitCode"
	ReasonOOM           ReasonCode = "OutOfMemory"
	ReasonTimeLimit     ReasonCode = "TimeLimit"
	ReasonBadConstraint ReasonCode = "BadConstraints"
	ReasonNotScheduled  ReasonCode = "None"       // not considered yet
	ReasonCycleLimit    ReasonCode = "CycleLimit" // a cycle that started as many jobs as it may came not to it
	ReasonDependency    ReasonCode = "Dependency"
	ReasonNeverMet      ReasonCode = "DependencyNeverSatisfied"
	ReasonBegin         ReasonCode = "BeginTime"
	ReasonArrayLimit    ReasonCode = "JobArrayTaskLimit"
	ReasonDeadline      ReasonCode = "DeadLine"
	ReasonMembers       ReasonCode = "Members"    // a parent job waits for its children
	ReasonPreempting    ReasonCode = "Preempting" // others leave for it
	ReasonPreempted     ReasonCode = "Preempted"  // it has left for another
	ReasonSuspended     ReasonCode = "Suspended"  // it has paused for another
	ReasonNoVictim      ReasonCode = "NoVictim"   // no job may be preempted for it
	ReasonTELimit       ReasonCode = "TELimit"    // its account or user holds as much in trial-and-error jobs as it may
	ReasonLicenses      ReasonCode = "Licenses"   // others hold the licences that it asks for
	ReasonPaused        ReasonCode = "Paused"     // an operator has paused all scheduling
)

// Called returns the reason with a name for the job that it is about, such as 7_3.
func (r Reason) Called(name string) Reason {
	if r.For != 0 && r.As == "" && name != fmt.Sprint(int64(r.For)) {
		r.As = name
	}
	return r
}

// Sentence says the reason in plain English, without the code and without a full stop, and "" for
// no reason. Numbers that the reason does not have are left out. A message from outside (Text)
// comes last.
func (r Reason) Sentence() string {
	known, ok := sentences[r.Code]
	if !ok && !r.Code.IsLimit() {
		known.text = string(r.Code)
	}
	s := known.text
	if known.detail != nil {
		s += known.detail(r)
	}
	switch {
	case r.Text == "":
		return s
	case s == "":
		return r.Text
	}
	return s + ": " + r.Text
}

// sentences are what the codes say.
var sentences = map[ReasonCode]struct {
	text   string
	detail func(Reason) string // what follows the text; nil: nothing
}{
	ReasonNone:         {},
	ReasonNotScheduled: {"it starts in the next scheduling cycle", nil},
	ReasonCycleLimit: {"this scheduling cycle has started as many jobs as a cycle may; the next cycle considers this job",
		nil},
	ReasonPriority: {"it waits behind ", func(r Reason) string {
		return r.jobOr("a job that comes earlier in the order")
	}},
	ReasonReservation:   {"the room that it needs is reserved for ", Reason.otherJob},
	ReasonResources:     {"", Reason.noRoom},
	ReasonFragmentation: {"enough is free in total, but no single node has enough", Reason.shortage},
	ReasonGang: {"", func(r Reason) string {
		return fmt.Sprintf("only %d of its %d workers would fit now, and all must start together", r.Fit, r.Want)
	}},
	ReasonNodeDown: {"it needs a node that is down", Reason.onNode},
	ReasonNotAvail: {"all nodes that it could use are down, drained, or avoided because it failed there",
		Reason.onNode},
	ReasonNodeLost:      {"one of its nodes is down", Reason.onNode},
	ReasonBadConstraint: {"", Reason.impossible},
	ReasonArrayLimit: {"", func(r Reason) string {
		return fmt.Sprintf("%d elements of its array are running, and max_parallel allows %d", r.Fit, r.Want)
	}},
	ReasonMembers:       {"its members run", nil},
	ReasonBackoff:       {"it waits for some time after a failure before it starts again", nil},
	ReasonHeldUser:      {"its owner holds it; rota release ends the hold", nil},
	ReasonHeldAdmin:     {"an operator holds it", nil},
	ReasonMaxRequeue:    {"it requeued itself too often, so it is held; rota release lets it start again", nil},
	ReasonLaunchFailure: {"it could not be launched", Reason.onNode},
	ReasonNonZeroExit:   {"", Reason.failure},
	ReasonOOM:           {"it ran out of memory", nil},
	ReasonTimeLimit:     {"it reached its time limit", nil},
	ReasonDependency:    {"", Reason.dependency},
	ReasonNeverMet: {"its dependency on ", func(r Reason) string {
		return r.otherJob() + " can no longer be satisfied"
	}},
	ReasonBegin:      {"its begin time has not come", nil},
	ReasonDeadline:   {"its deadline could not be met", nil},
	ReasonPreempting: {"", Reason.preempting},
	ReasonPreempted:  {"it has left its room to ", Reason.otherJob},
	ReasonSuspended:  {"it has paused for ", Reason.suspended},
	ReasonNoVictim:   {"no room is free, and no running job may be preempted for it", nil},
	ReasonLicenses:   {"", nil},
	ReasonPaused:     {"an operator has paused all scheduling: nothing starts until it is resumed", nil},
	ReasonTELimit:    {"trial-and-error jobs have reached a limit on the resources that they may hold", nil},
}

func (r Reason) otherJob() string { return r.jobOr("another job") }

func (r Reason) noRoom() string {
	if r.Want > 0 && r.Fit >= r.Want {
		return "" // it is not for lack of room: the text says what is missing
	}
	return "no node has enough free for one worker" + r.shortage()
}

func (r Reason) impossible() string {
	if r.Fit > 0 {
		return fmt.Sprintf("the whole cluster has room for only %d of its %d workers", r.Fit, r.Want)
	}
	return "no node of the cluster can run it, even if empty" + r.shortage()
}

func (r Reason) failure() string {
	if r.Want > 0 {
		return fmt.Sprintf("%d of its %d members failed", r.Fit, r.Want)
	}
	return "its command failed"
}

func (r Reason) dependency() string {
	switch {
	case r.Text != "":
		return "" // the text says it all
	case r.Until != 0:
		return "its dependency is satisfied, and it waits for the delay that it asked for"
	}
	return "it waits for other jobs"
}

func (r Reason) preempting() string {
	if r.For == 0 {
		return "room is being freed for it" + r.onNode()
	}
	return r.jobOr("") + " is leaving to make room for it" + r.onNode()
}

// suspended says for which job one has paused, and when it goes on.
func (r Reason) suspended() string {
	node, beneficiary := r.onNode(), r.jobOr("other jobs")
	r.Node = ""
	return beneficiary + " and keeps its memory; it continues when there is room on its nodes" + r.shortage() + node
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
		lacks = append(lacks, fmt.Sprintf("%s of %s memory", SizeText(r.Have.Memory), SizeText(r.Need.Memory)))
	}
	switch {
	case len(lacks) == 0:
		return r.onNode()
	case r.Node == "":
		return ": " + strings.Join(lacks, ", ")
	}
	return "; the nearest, " + r.Node + ", has " + strings.Join(lacks, ", ")
}

func (r Reason) onNode() string {
	if r.Node == "" {
		return ""
	}
	return " (" + r.Node + ")"
}

func (r Reason) jobOr(otherwise string) string {
	switch {
	case r.For == 0:
		return otherwise
	case r.As != "":
		return "job " + r.As
	}
	return fmt.Sprintf("job %d", r.For)
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
// SizeText writes a size in words, in the largest unit of which it has ten or a whole number.
func SizeText(b jobspec.Bytes) string {
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
