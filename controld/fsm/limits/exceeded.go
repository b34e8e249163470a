package limits

import (
	"fmt"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Exceeded returns the limit that keeps a job from starting: the first of an owner, in the order of
// the cases. Nodes are those of the places that were found for it; nil if they are not known yet.
// The zero reason means that the limit allows the start.
func Exceeded(b *cluster.Bound, u *Use, n *Need, nodes []string, now model.Instant) model.Reason {
	l := b.Limit
	switch {
	case l.Running != nil && n.Jobs > 0 && u.Running+n.Jobs > *l.Running:
		return reason(b, cluster.LimitRunning, fmt.Sprintf("%s may run %s at once and runs %d", b.Owner,
			count(*l.Running, "job"), u.Running))
	case l.GPUs != nil && n.Total.GPUs > 0 && u.Held.GPUs+n.Total.GPUs > *l.GPUs:
		return tooMuch(b, cluster.LimitGPUs, "hold", gpus(*l.GPUs), gpus(u.Held.GPUs), gpus(n.Total.GPUs))
	case l.GPUMinutes != nil && n.Total.GPUs > 0 && u.gpuSeconds(now)+n.gpuSeconds() > *l.GPUMinutes*milliMinute:
		return tooMuch(b, cluster.LimitGPUMinutes, "have", count(*l.GPUMinutes, "GPU minute")+" running",
			minutes(u.gpuSeconds(now)), minutes(n.gpuSeconds()))
	case l.Cores != nil && n.Total.Cores > 0 && u.Held.Cores+n.Total.Cores > *l.Cores:
		return tooMuch(b, cluster.LimitCores, "hold", count(*l.Cores, "core"), number(u.Held.Cores), number(n.Total.Cores))
	case l.Memory != nil && n.Total.Memory > 0 && u.Held.Memory+n.Total.Memory > *l.Memory:
		return tooMuch(b, cluster.LimitMemory, "hold", model.SizeText(*l.Memory)+" of memory", model.SizeText(u.Held.Memory),
			model.SizeText(n.Total.Memory))
	case l.Nodes != nil && (n.Least > *l.Nodes || u.withNodes(nodes) > *l.Nodes):
		return tooMuch(b, cluster.LimitNodes, "use", count(*l.Nodes, "node"), number(int64(u.Nodes())),
			number(max(n.Least, int64(len(nodes)))))
	}
	return model.Reason{}
}

// SpareAt returns the instant from which running jobs leave enough GPU minutes for a job to start.
// It is 0 if that is now, or if time alone does not bring it.
func SpareAt(b *cluster.Bound, u *Use, n *Need, now model.Instant) model.Instant {
	if b.Limit.GPUMinutes == nil || u.ticking <= 0 {
		return 0
	}
	excess := u.gpuSeconds(now) + n.gpuSeconds() - *b.Limit.GPUMinutes*milliMinute
	if excess <= 0 {
		return 0
	}
	return (now/1000 + model.Instant((excess+u.ticking-1)/u.ticking)) * 1000
}

// Never returns the limit that a job exceeds by itself, so that it could never start; the zero
// reason if there is none.
func Never(bounds []cluster.Bound, j *model.Job) model.Reason {
	need := NeedOf(j)
	for i := range bounds {
		b := &bounds[i]
		if most := b.Limit.MaxTime; most > 0 && need.Seconds > int64(most) {
			asks := "no time limit"
			if j.Limit > 0 {
				asks = "a time limit of " + j.Limit.String()
			}
			return reason(b, cluster.LimitTime, fmt.Sprintf("jobs of %s may run for %v, and this one has %s", b.Owner, most,
				asks))
		}
		if b.Limit.Running != nil && *b.Limit.Running == 0 {
			continue // an administrator has closed it for a while: its jobs wait
		}
		if why := Exceeded(b, &Use{}, &need, nil, 0); why.Code != model.ReasonNone {
			return why
		}
	}
	return model.Reason{}
}

// TooMany returns the limit on unfinished jobs that some more would exceed; the zero reason if
// there is none.
func TooMany(b *cluster.Bound, u *Use, more int64) model.Reason {
	if most := b.Limit.Submitted; most != nil && u.Submitted+more > *most {
		return reason(b, cluster.LimitSubmitted, fmt.Sprintf(
			"%s may have %s, running ones and array tasks included: it has %d, and this submission has %d", b.Owner,
			count(*most, "unfinished job"), u.Submitted, more))
	}
	return model.Reason{}
}

// ByTime reports whether time alone ends the wait for a limit, so that it depends on the time limit
// of each job.
func ByTime(c model.ReasonCode) bool {
	for kind := range cluster.OwnerKinds {
		if c == (cluster.Owner{Kind: cluster.OwnerKind(kind)}).Reason(cluster.LimitGPUMinutes) {
			return true
		}
	}
	return false
}

// milliMinute is a GPU minute in thousandths of a GPU times seconds.
const milliMinute = 60 * model.WholeGPU

func (n *Need) gpuSeconds() int64 { return n.Total.GPUs * n.Seconds }

// tooMuch says that an owner may hold so much, holds so much, and that a job asks for so much.
func tooMuch(b *cluster.Bound, kind cluster.LimitKind, verb, most, has, asks string) model.Reason {
	return reason(b, kind, fmt.Sprintf("%s may %s %s at once: its jobs have %s, and this one asks for %s", b.Owner, verb,
		most, has, asks))
}

func reason(b *cluster.Bound, kind cluster.LimitKind, text string) model.Reason {
	return model.Reason{Code: b.Owner.Reason(kind), Text: text}
}

func count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// gpus writes thousandths of a GPU.
func gpus(milli int64) string {
	text := strconv.FormatFloat(float64(milli)/model.WholeGPU, 'f', -1, 64)
	if milli == model.WholeGPU {
		return text + " GPU"
	}
	return text + " GPUs"
}

// minutes writes thousandths of a GPU times seconds in whole GPU minutes, rounded up.
func minutes(milliSeconds int64) string {
	return number((milliSeconds + milliMinute - 1) / milliMinute)
}
