package simulate

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

// shaping is how a workload is changed before the replay.
type shaping struct {
	teBelow       int64
	missed, extra int64 // thousandths
	noisy         bool
	graceMean     int64
	graceMost     int64
	grace         bool
	saves         []synth.MixPart
	pauses        int64 // thousandths of the best-effort jobs
	estimates     int64 // thousandths; 0: none
}

// apply changes a workload. Random numbers depend only on the seed and the job.
func (h *shaping) apply(t *trace.Trace, seed uint64) error {
	if h.teBelow > 0 {
		if err := synth.LabelTE(t, h.teBelow); err != nil {
			return err
		}
	}
	if h.noisy {
		if err := synth.NoiseTE(t, h.missed, h.extra, seed); err != nil {
			return err
		}
	}
	if h.grace {
		if err := synth.DrawGrace(t, h.graceMean, h.graceMost, seed); err != nil {
			return err
		}
	}
	if h.saves != nil {
		synth.DrawSaves(t, h.saves, seed)
	}
	if h.pauses > 0 {
		synth.DrawPauses(t, h.pauses, seed)
	}
	if h.estimates > 0 {
		return synth.DrawEstimates(t, h.estimates, seed)
	}
	return nil
}

// readNoise reads --te-noise MISSED,FALSE.
func (h *shaping) readNoise(text string) error {
	missed, extra, _ := strings.Cut(text, ",")
	var errs [2]error
	h.missed, errs[0] = percent(strings.TrimSpace(missed), 0, 100)
	h.extra, errs[1] = percent(strings.TrimSpace(extra), 0, 100)
	if errors.Join(errs[:]...) != nil {
		return exit.Usagef("--te-noise %s: write MISSED,FALSE in percent, such as 30%%,10%%", text)
	}
	h.noisy = true
	return nil
}

// readSaves reads --checkpoint.
func (h *shaping) readSaves(text string) (err error) {
	if h.saves, err = synth.ParseSaves(text); err != nil {
		return exit.Usagef("--checkpoint: %v", err)
	}
	return nil
}

// readPauses reads --pause.
func (h *shaping) readPauses(text string) (err error) {
	if h.pauses, err = percent(text, 0, 100); err != nil {
		return exit.Usagef("--pause %s: write PERCENT, such as 50%%", text)
	}
	return nil
}

// readEstimates reads --estimates.
func (s *simulation) readEstimates(text string) (err error) {
	if s.shape.estimates, err = factor("--estimates", text, 1, 1000); err != nil {
		return err
	}
	if !s.usesPolicy("easy") {
		return exit.Usagef("--estimates is for policy easy, but neither --policy nor --compare names it")
	}
	return nil
}

// usesPolicy reports whether a policy is simulated or controls the arrivals.
func (s *simulation) usesPolicy(policy string) bool {
	return s.loop != nil && s.loop.policy.Name == policy || slices.ContainsFunc(s.policies,
		func(p sim.Policy) bool { return p.Name == policy })
}

// readGrace reads --grace MEAN:MAX.
func (h *shaping) readGrace(text string) error {
	mean, most, ok := strings.Cut(text, ":")
	a, err := jobspec.ParseSeconds(mean)
	b, errB := jobspec.ParseSeconds(most)
	if !ok || err != nil || errB != nil || a < 0 || b < a {
		return exit.Usagef("--grace %s: write MEAN:MAX, such as 3m:20m", text)
	}
	h.grace, h.graceMean, h.graceMost = true, int64(a)*1000, int64(b)*1000
	return nil
}

// percent reads a percentage from least to most, such as 30%, as thousandths.
func percent(text string, least, most float64) (int64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(f >= least && f <= most) {
		return 0, exit.Usagef("%q is not a percentage", text)
	}
	return int64(f*10 + 0.5), nil
}
