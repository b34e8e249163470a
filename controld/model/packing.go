package model

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Profile is what the node has measured of an attempt that had its GPU for itself: see
// [ProfileAfterMS]. Nothing is assumed of an attempt without one.
type Profile struct {
	Utilisation int64         `json:"utilisation"` // thousandths of the time in which the GPU worked
	Memory      jobspec.Bytes `json:"memory"`      // of the GPU, at its peak
	Rate        int64         `json:"rate"`        // steps in 1,000 s
}

// ProfileAfterMS is how long an attempt runs alone on its GPU, or beside the same others, before
// its rate is reported, in milliseconds. It is half a turn, so one turn is enough.
const ProfileAfterMS = SliceMS / 2

// TrialMS is for how many milliseconds an attempt is left on a GPU to be measured: twice as long as
// that takes.
const TrialMS = 2 * ProfileAfterMS

// Packing is how an attempt shares its GPU with others while all of them run, after Gandiva (Xiao
// et al., OSDI 2018). Only attempts of one worker with one GPU share it. A value is replaced and
// never changed.
type Packing struct {
	// Set is the job that was first on the GPU. All attempts of a set take turns as one.
	Set JobID `json:"set,omitempty"`
	// Share is what it holds of the GPU, in thousandths; 0: all of it, or none while it is suspended.
	Share  int64   `json:"share,omitempty"`
	Since  Instant `json:"since,omitempty"`  // it has held the share
	Number int     `json:"number"`           // counts changes of those on the GPU: a rate belongs to one
	Spared int64   `json:"spared,omitempty"` // of the GPU, in thousandths times ms, which others held
	// With is the job to which it came, until the rates say whether that is worth it.
	With   JobID `json:"with,omitempty"`
	Before int64 `json:"before,omitempty"` // rate of the set before it came, as Rate; 0: of one job
	// what the scheduler expects of that, as [Trial.Expected]
	Expected int64 `json:"expected,omitempty"`
	Rate     int64 `json:"rate,omitempty"` // in thousandths of that alone; 0: not measured under Number
}

// PackedRate is the rate of an attempt that shares its GPU, in steps in 1,000 s.
type PackedRate struct {
	Number int   `json:"number"` // as [Packing.Number]
	Rate   int64 `json:"rate"`
}

// MaxPacked is how many attempts share one GPU at most.
const MaxPacked = 8

// CausePack is the cause for which an attempt is suspended so that it leaves those with which it
// shares a GPU.
const CausePack Cause = "pack"

// CanPack reports whether a job may share its GPU: it has one worker with one GPU, and can pause.
func (j *Job) CanPack() bool {
	return j.CanSuspend() && j.Workers == 1 && len(j.Parts) == 0 && j.Request.Active.GPUs == WholeGPU
}

// Packed reports whether an attempt holds a part of its GPU.
func (a *Attempt) Packed() bool { return a.Packing != nil && a.Packing.Share > 0 }

// PackingNumber counts the changes of those on an attempt's GPU.
func (a *Attempt) PackingNumber() int {
	if a.Packing == nil {
		return 0
	}
	return a.Packing.Number
}

// SetOf returns the set of an attempt, 0 if it shares no GPU.
func (a *Attempt) SetOf() JobID {
	if a.Packing == nil {
		return 0
	}
	return a.Packing.Set
}

// Spared is the time of its GPU that others have had until now, in thousandths times ms.
func (a *Attempt) Spared(now Instant) int64 {
	switch {
	case a.Packing == nil:
		return 0
	case a.Packing.Share == 0:
		return a.Packing.Spared
	}
	return a.Packing.Spared + int64(now-a.Packing.Since)*(WholeGPU-a.Packing.Share)
}

// shared is what of a request an attempt holds that runs.
func (a *Attempt) shared(r Request) Request {
	if a.Packed() {
		return r.WithShare(a.Packing.Share)
	}
	return r
}

// WithShare is a request with a part of a GPU in place of a whole one.
func (r Request) WithShare(share int64) Request {
	r.Active.GPUs, r.Resident.GPUs = share, min(r.Resident.GPUs, share)
	return r
}

// OnTrial reports whether it is not known yet if an attempt stays with those on its GPU.
func (a *Attempt) OnTrial() bool { return a.Packing != nil && a.Packing.With != 0 }

// TrialOver reports whether an attempt has been tried on a GPU for so long that rates which have not
// come do not come.
func (a *Attempt) TrialOver(now Instant) bool { return a.OnTrial() && now-a.Packing.Since >= TrialMS }

// Repacked is how an attempt shares its GPU from now on; share 0: it has all of it, or none. A trial
// that is not over leaves no set: nothing was found out.
func (a *Attempt) Repacked(now Instant, set JobID, share int64, number int) *Packing {
	p := &Packing{Set: set, Share: share, Number: number, Spared: a.Spared(now)}
	if share > 0 {
		p.Since = now
	}
	if a.OnTrial() {
		p.Set = 0
	}
	return p
}

// LeaveSet takes an attempt out of its set, if it is in one.
func (a *Attempt) LeaveSet() {
	if a.SetOf() != 0 {
		p := *a.Packing
		p.Set = 0
		a.Packing = &p
	}
}

// Failed reports whether a job has been put beside another one lately, and it was undone.
func (j *Job) Failed(with JobID, now Instant) bool {
	return slices.ContainsFunc(j.Attempts, func(a Attempt) bool {
		return slices.ContainsFunc(a.Trials, func(t Trial) bool {
			return t.What == TrialPack && t.With == with && t.Undone && now-t.At < TrialMemory
		})
	})
}

// TriedEnough reports whether so much has been tried with an attempt lately that nothing more can be
// remembered.
func (a *Attempt) TriedEnough(now Instant) bool {
	return len(a.Trials) == MaxTrials && now-a.Trials[0].At < TrialMemory
}

// PartOfGPU is what the k-th of n attempts on one GPU holds of it. Together they hold all of it.
func PartOfGPU(k, n int) int64 {
	part := WholeGPU / int64(n)
	if k == 0 {
		return WholeGPU - part*int64(n-1)
	}
	return part
}

// Remember appends a trial to those of an attempt, in place of those that are past [TrialMemory],
// or else of the oldest.
func (a *Attempt) Remember(t Trial) {
	kept := slices.DeleteFunc(slices.Clone(a.Trials), func(o Trial) bool { return t.At-o.At >= TrialMemory })
	a.Trials = append(kept[max(0, len(kept)+1-MaxTrials):], t)
}

// TogetherPM returns the gain of packing: the rate of a set in thousandths of the rate that its
// jobs would have by taking turns. Both sum and before, the rate before the last job came, are in
// thousandths of a job alone.
func TogetherPM(sum, before int64) int64 {
	if before == 0 {
		before = WholeGPU
	}
	return sum * 2 * 1000 / (before + WholeGPU)
}
