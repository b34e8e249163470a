package jobspec

import "testing"

func TestWatchedMetric(t *testing.T) {
	with := func(p *Progress, stop *ArrayStop) *Job {
		j := &Job{Groups: []Group{{Tasks: []Task{{}, {Progress: p}}}}}
		if stop != nil {
			j.Array = &Array{Stop: stop}
		}
		return j
	}
	loss, accuracy := &Progress{Metric: "loss"}, &Progress{Metric: "accuracy", Goal: "max"}
	for what, test := range map[string]struct {
		spec  *Job
		group int
		name  string
		large bool
	}{
		"the task's":                {with(loss, nil), 0, "loss", false},
		"it is to become large":     {with(accuracy, nil), 0, "accuracy", true},
		"none":                      {with(nil, nil), 0, "", false},
		"progress without one":      {with(&Progress{Pattern: "x"}, nil), 0, "", false},
		"an array's":                {with(nil, &ArrayStop{Metric: "loss", Goal: "max"}), 0, "loss", true},
		"the goal of an array":      {with(loss, &ArrayStop{Metric: "loss", Goal: "max"}), 0, "loss", true},
		"an array's is another":     {with(loss, &ArrayStop{Metric: "bleu", Goal: "max"}), 0, "loss", false},
		"a group that is not there": {with(loss, nil), 1, "", false},
		"no specification":          {nil, 0, "", false},
	} {
		if p := test.spec.Watched(test.group); p.Metric != test.name || (p.Goal == "max") != test.large {
			t.Errorf("%s: %+v", what, p)
		}
	}
}

// TestTheMetricThatMattersMost is of the first group that names one.
func TestTheMetricThatMattersMost(t *testing.T) {
	group := func(metric string, total int64) Group {
		return Group{Tasks: []Task{{Progress: &Progress{Metric: metric, Total: total}}}}
	}
	for i, c := range []struct {
		groups []Group
		metric string
		total  int64
	}{{[]Group{group("", 5), group("loss", 7)}, "loss", 7}, {[]Group{group("", 5), group("", 7)}, "", 5},
		{[]Group{group("a", 5), group("b", 7)}, "a", 5}, {[]Group{{}, group("", 7)}, "", 7}, {nil, "", 0}} {
		if p := (&Job{Groups: c.groups}).MainProgress(); p.Metric != c.metric || p.Total != c.total {
			t.Errorf("case %d: %+v", i, p)
		}
	}
}
