package synth

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// LabelTE makes jobs that run for less than below ms trial-and-error jobs and all others best
// effort. This label is always right.
func LabelTE(t *trace.Trace, below int64) error {
	if below < 1 || below > trace.MaxTime {
		return fmt.Errorf("the limit for TE jobs is %d ms, but must be 1 ms to ten years", below)
	}
	for i := range t.Jobs {
		t.Jobs[i].Class = jobspec.BE
		if t.Jobs[i].Alone() < below {
			t.Jobs[i].Class = jobspec.TE
		}
	}
	return nil
}

// NoiseTE makes labels wrong, as users do: missed thousandths of the TE jobs lose their label, and
// extra thousandths of the others get one.
func NoiseTE(t *trace.Trace, missed, extra int64, seed uint64) error {
	if missed < 0 || missed > 1000 || extra < 0 || extra > 1000 {
		return fmt.Errorf("noise of %d and %d: %w", missed, extra, errShare)
	}
	for i := range t.Jobs {
		j, r := &t.Jobs[i], source(seed, streamLabel, uint64(i))
		switch {
		case j.Class == jobspec.TE && chance(r, missed):
			j.Class = jobspec.BE
		case j.Class == jobspec.BE && chance(r, extra):
			j.Class = jobspec.TE
		}
	}
	return nil
}

// DrawGrace draws grace periods, in ms, for jobs without one. They come from a normal distribution
// whose deviation is its mean, cut off at 0 and most.
func DrawGrace(t *trace.Trace, mean, most int64, seed uint64) error {
	if mean < 0 || most < mean || most > trace.MaxTime {
		return fmt.Errorf("grace periods with mean %d ms and maximum %d ms: they must be in this order, not negative and "+
			"below ten years", mean, most)
	}
	n := Normal{Mean: float64(mean), SD: float64(mean), Most: float64(most)}
	for i := range t.Jobs {
		if t.Jobs[i].Grace == trace.Unknown {
			t.Jobs[i].Grace = n.nearest(source(seed, streamGrace, uint64(i)))
		}
	}
	return nil
}

// MixPart is one way of saving state, with its share of the jobs in thousandths.
type MixPart struct {
	Saves trace.Saves
	Every int64 // ms
	Share int64
}

// ParseSaves reads a mix of ways in which jobs save their state, such as
// "none:30%,signal:50%,30m:20%". A duration is the time between checkpoints. The shares add up to
// 100 %; a single way needs no share.
func ParseSaves(text string) ([]MixPart, error) {
	var parts []MixPart
	total := int64(0)
	for word := range strings.SplitSeq(text, ",") {
		p, err := parsePart(strings.TrimSpace(word), !strings.Contains(text, ","))
		if err != nil {
			return nil, fmt.Errorf("checkpoints %q: %w", field.Shorten(text), err)
		}
		parts = append(parts, p)
		total += p.Share
	}
	if total != 1000 {
		return nil, fmt.Errorf("checkpoints %q: the shares add up to %g %%, not 100 %%", field.Shorten(text),
			float64(total)/10)
	}
	return parts, nil
}

func parsePart(word string, alone bool) (MixPart, error) {
	way, share, shared := strings.Cut(word, ":")
	p := MixPart{Share: 1000}
	if !shared && !alone {
		return p, fmt.Errorf("%q has no share: write %s:30%%", field.Shorten(word), field.Shorten(word))
	}
	if shared {
		digits, percent := strings.CutSuffix(share, "%")
		n, err := field.Scaled(digits, 10, 1000)
		if err == nil && !percent {
			err = errors.New("has no % sign")
		}
		if err != nil {
			return p, fmt.Errorf("the share of %q %w", field.Shorten(word), err)
		}
		p.Share = n
	}
	switch way {
	case string(trace.SavesNone), string(trace.SavesSignal):
		p.Saves = trace.Saves(way)
		return p, nil
	}
	every, err := jobspec.ParseSeconds(way)
	if err != nil {
		return p, fmt.Errorf("%q is not none, signal or the time between checkpoints: %w", field.Shorten(way), err)
	}
	if every == 0 {
		return p, fmt.Errorf("%q is not a time between checkpoints", way)
	}
	p.Saves, p.Every = trace.SavesEvery, int64(every)*second
	return p, nil
}

// DrawSaves draws a way of saving for jobs without one, by the shares of a mix that [ParseSaves]
// returned.
func DrawSaves(t *trace.Trace, mix []MixPart, seed uint64) {
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if j.Saves != "" {
			continue
		}
		at := source(seed, streamCheckpoint, uint64(i)).Int64N(1000)
		for _, p := range mix {
			if at -= p.Share; at < 0 {
				j.Saves, j.Every = p.Saves, p.Every
				break
			}
		}
	}
}

// DrawPauses lets the given thousandths of the best-effort jobs pause, all equally likely. Elastic
// jobs give up workers instead.
func DrawPauses(t *trace.Trace, share int64, seed uint64) {
	for i := range t.Jobs {
		if j := &t.Jobs[i]; j.Class != jobspec.TE && !j.Elastic() {
			j.Pauses = j.Pauses || source(seed, streamPause, uint64(i)).Int64N(1000) < share
		}
	}
}

// DrawEstimates draws an estimate for jobs without one. It is too long by a factor of 1000 to worst
// thousandths, all equally likely. At 1000 estimates are exact.
func DrawEstimates(t *trace.Trace, worst int64, seed uint64) error {
	if worst < 1000 || worst > 1_000_000 {
		return fmt.Errorf("estimates may be wrong by up to %d thousandths of the length, but this must be 1000 to a "+
			"million", worst)
	}
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if j.Estimate == 0 {
			factor := 1000 + source(seed, streamEstimate, uint64(i)).Int64N(worst-1000+1)
			j.Estimate = min(trace.MaxTime, model.MulDiv(j.Work, factor, 1000))
		}
	}
	return nil
}

// Inflate returns a trace that fills a cluster. Jobs are drawn from t at random until together they
// request factor thousandths of capacity GPUs (in thousandths of a GPU). They arrive a second apart
// and never end, so that the jobs without a place show how well the cluster was packed.
func Inflate(t *trace.Trace, capacity, factor int64, seed uint64) (*trace.Trace, error) {
	if factor < 1 || factor > 100_000 {
		return nil, fmt.Errorf("inflation to %d thousandths: must be 1 to 100000", factor)
	}
	most := int64(0)
	for i := range t.Jobs {
		most = max(most, t.Jobs[i].Demand(t.Jobs[i].Workers).GPUs)
	}
	if most == 0 || capacity < 1 {
		return nil, errors.New("the trace or the cluster has no GPU to inflate to")
	}
	goal := model.MulDiv(capacity, factor, 1000)
	out := &trace.Trace{Name: t.Name, Format: t.Format, Skipped: t.Skipped, Bad: t.Bad, Seed: seed}
	for asked, i := int64(0), uint64(0); asked < goal; i++ {
		if len(out.Jobs) >= trace.MaxJobs {
			return nil, fmt.Errorf("it takes more than %d jobs to inflate to %d thousandths", trace.MaxJobs, factor)
		}
		j := t.Jobs[source(seed, streamInflate, i).IntN(len(t.Jobs))]
		asked += j.Demand(j.Workers).GPUs
		j.ID, j.Submit, j.Work = fmt.Sprintf("%s#%d", field.Clip(j.ID, trace.MaxText-12), i+1), int64(i)*second, trace.MaxTime
		j.Search, j.Learning = nil, nil
		out.Jobs = append(out.Jobs, j)
	}
	return out, nil
}

// Redraw returns a trace of as many jobs with the arrival times of t. Each job is drawn from those
// of t at random, so that every seed gives another workload of the same kind.
func Redraw(t *trace.Trace, seed uint64) *trace.Trace {
	out := *t
	out.Seed, out.Jobs = seed, make([]trace.Job, len(t.Jobs))
	for i := range out.Jobs {
		j := t.Jobs[source(seed, streamRedraw, uint64(i)).IntN(len(t.Jobs))]
		j.ID, j.Submit = fmt.Sprintf("%s#%d", field.Clip(j.ID, trace.MaxText-12), i+1), t.Jobs[i].Submit
		out.Jobs[i] = j
	}
	return &out
}

// Pace changes the rate of arrivals to rate thousandths. Times are rounded to whole multiples of
// tick ms, so that no job waits for a decision only because of that; 0 stands for 1.
func Pace(t *trace.Trace, rate, tick int64) error {
	if rate < 1 || rate > 100_000 || tick < 0 || tick > trace.MaxTime {
		return fmt.Errorf("arrivals at %d thousandths of their rate, rounded to multiples of %d ms: must be 1 to 100000, "+
			"and not negative",
			rate, tick)
	}
	tick = max(1, tick)
	for i := range t.Jobs {
		j := &t.Jobs[i]
		at := model.MulDiv(j.Submit, 1000, rate)
		if at > trace.MaxTime {
			return fmt.Errorf("job %s would arrive after more than ten years", j.ID)
		}
		j.Submit = (at + tick/2) / tick * tick
	}
	return nil
}
